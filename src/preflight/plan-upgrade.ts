import * as z from "zod";
import { type KnownEngine, enginesConfigMap, parseEngineList } from "../api/engine/engine.ts";
import { type Checkpoint, checkpointKind } from "../api/kinds/checkpoint.ts";
import type { SnapshotVersion } from "../api/kinds/named-snapshot-status.ts";
import { type NamedSnapshot, namedSnapshotKind } from "../api/kinds/named-snapshot.ts";
import { type SandboxSet, sandboxSetKind } from "../api/kinds/sandbox-set.ts";
import { type Sandbox, sandboxKind } from "../api/kinds/sandbox.ts";
import { labels } from "../api/names/labels.ts";
import { sandboxState } from "../api/state/sandbox.ts";
import { systemNamespace } from "../api/names/system-names.ts";
import type { KubeClient } from "../kube/kube-client.ts";
import { ObjectMeta } from "../kube/object.ts";
import { coreResources } from "../kube/resource-ref.ts";

export interface UpgradeState {
  /** The cell images of the installation, by engine. */
  engines: ReadonlyMap<string, KnownEngine>;
  /** The cell image after the upgrade. */
  cellImage: string;
  /** Its engine. Undefined: the one that the list has for the image, else another one than all. */
  cellEngine: string | undefined;
  checkpoints: readonly Checkpoint[];
  sandboxes: readonly Sandbox[];
  sets: readonly SandboxSet[];
  snapshots: readonly NamedSnapshot[];
}

/** One thing that happens, or does not happen, because of an upgrade. */
export interface UpgradeStep {
  kind: "CellImage" | "NamedSnapshot" | "SandboxSet" | "Sandbox" | "Checkpoint" | "Engine";
  /** Absent for an engine. */
  namespace?: string;
  name: string;
  engine?: string;
  what: string;
}

/** Lists the effects of an upgrade to a cell image. A pure function. */
export function planUpgrade(state: UpgradeState): UpgradeStep[] {
  return [
    ...planSnapshots(state),
    ...planSets(state),
    ...planPaused(state),
    ...planCheckpoints(state),
    ...planEngines(state),
  ];
}

function isEarlier({ engines, cellImage, cellEngine }: UpgradeState, engine: string): boolean {
  return cellEngine === undefined ? engines.get(engine)?.name !== cellImage : engine !== cellEngine;
}

function planSnapshots(state: UpgradeState): UpgradeStep[] {
  return state.snapshots.flatMap((snapshot): UpgradeStep[] => {
    const { namespace, name } = snapshot.metadata;
    const current = currentOf(snapshot);
    const engine = current?.engine;
    if (current === undefined || engine === undefined || !isEarlier(state, engine)) return [];
    const what = `version ${current.version} ${fateOf(state, snapshot).what}`;
    return [{ kind: "NamedSnapshot", namespace, name, engine, what }];
  });
}

function currentOf({ status }: NamedSnapshot): SnapshotVersion | undefined {
  return status?.versions?.find(({ version }) => version === status.version);
}

interface Fate {
  isCaptured: boolean;
  what: string;
}

const keeps = (why: string): Fate => ({ isCaptured: false, what: `keeps its engine${why}` });
const again = (when: string): Fate => ({ isCaptured: true, what: `is captured again ${when}` });

/** @param children the named snapshots that led here, so that a circle ends */
function fateOf(state: UpgradeState, snapshot: NamedSnapshot, children: readonly NamedSnapshot[] = []): Fate {
  const { from, engineUpgrade, suspend, pinnedVersion } = snapshot.spec;
  if (from.checkpoint !== undefined) return keeps(cannot(`the checkpoint ${from.checkpoint.id}`));
  if (from.sandbox !== undefined) return keeps(cannot(`the sandbox ${from.sandbox.name}`));
  if (pinnedVersion !== undefined) return keeps(": it is pinned");
  if (suspend === true) return keeps(" until spec.suspend is removed");
  const ofParent = from.snapshot && fateOfParent(state, snapshot, children);
  if (ofParent !== undefined && !ofParent.isCaptured) return ofParent;
  if (engineUpgrade === "Manual") return keeps(" until a build is requested (engineUpgrade: Manual)");
  return ofParent ?? again("in the background, and stays current until then");
}

function cannot(source: string): string {
  return `, because it cannot be captured again: its source is memory of ${source}`;
}

/** Undefined: the source has the new engine already. */
function fateOfParent(state: UpgradeState, child: NamedSnapshot, children: readonly NamedSnapshot[]): Fate | undefined {
  const { namespace } = child.metadata;
  const { name, version, digest } = child.spec.from.snapshot ?? {};
  const pin = version ?? digest;
  const parent = state.snapshots.find(({ metadata }) => metadata.namespace === namespace && metadata.name === name);
  const current = parent && currentOf(parent);
  if (parent === undefined || current === undefined) return undefined;
  if (pin !== undefined && !isPinOf(current, pin)) {
    return keeps(`, because its source is version ${pin} of ${parent.metadata.name}, which is not captured again`);
  }
  if (current.engine === undefined || !isEarlier(state, current.engine)) return undefined;
  const isCircle = children.includes(parent);
  if (isCircle || !fateOf(state, parent, [...children, child]).isCaptured) {
    return keeps(`, because its source, the named snapshot ${parent.metadata.name}, keeps its engine`);
  }
  return again(`after the named snapshot ${parent.metadata.name}`);
}

function isPinOf({ version, digest, replaces = [] }: SnapshotVersion, pin: number | string): boolean {
  return typeof pin === "string" ? pin === digest : [version, ...replaces].includes(pin);
}

function planSets(state: UpgradeState): UpgradeStep[] {
  const earlier = state.sandboxes.filter(
    ({ metadata, status }) =>
      metadata.ownerReferences?.some(({ kind }) => kind === "SandboxSet") === true &&
      status?.ramet?.engine !== undefined &&
      isEarlier(state, status.ramet.engine),
  );
  const bySet = Map.groupBy(
    earlier,
    ({ metadata }) => `${metadata.namespace}/${metadata.labels?.[labels.sandboxPool]}`,
  );
  return state.sets.flatMap(({ metadata: { namespace, name } }): UpgradeStep[] => {
    const members = bySet.get(`${namespace}/${name}`) ?? [];
    const [first] = members;
    if (first === undefined) return [];
    const isCloned = members.every(({ status }) => status?.ramet?.restoredFrom !== undefined);
    const what = isCloned
      ? `${members.length} sandboxes are replaced when the snapshot that fills the set has a new version`
      : `${members.length} sandboxes are replaced, new ones first`;
    return [{ kind: "SandboxSet", namespace, name, what }];
  });
}

function planPaused(state: UpgradeState): UpgradeStep[] {
  return state.sandboxes.flatMap((sandbox): UpgradeStep[] => {
    const { namespace, name } = sandbox.metadata;
    const engine = sandbox.status?.ramet?.engine;
    if (sandboxState(sandbox).is !== "paused" || engine === undefined || !isEarlier(state, engine)) return [];
    return [{ kind: "Sandbox", namespace, name, engine, what: `is paused, and resumes in ${imageOf(state, engine)}` }];
  });
}

/** The checkpoints that are never captured again: those of users, and kept versions that are not current. */
function planCheckpoints(state: UpgradeState): UpgradeStep[] {
  const current = new Set(
    state.snapshots.map((one) => `${one.metadata.namespace}/${currentOf(one)?.checkpointName ?? ""}`),
  );
  return state.checkpoints.flatMap(({ metadata, status }): UpgradeStep[] => {
    const { namespace, name } = metadata;
    const engine = status?.ramet?.engine;
    const purpose = metadata.labels?.[labels.purpose];
    if (engine === undefined || !isEarlier(state, engine) || current.has(`${namespace}/${name}`)) return [];
    if (purpose !== undefined && purpose !== "version") return [];
    const of =
      purpose === "version" ? `is of another version of ${metadata.labels?.[labels.snapshot] ?? ""}, and ` : "";
    const what = `${of}keeps its engine: clones of it start in ${imageOf(state, engine)}`;
    return [{ kind: "Checkpoint", namespace, name, engine, what }];
  });
}

/** Each engine other than the new one, with what needs it. */
function planEngines(state: UpgradeState): UpgradeStep[] {
  const ofCheckpoints = state.checkpoints.map(({ status }) => status?.ramet?.engine);
  const ofSandboxes = state.sandboxes.map(({ status }) => status?.ramet?.engine);
  const all = new Set([...state.engines.keys(), ...ofCheckpoints].filter((engine) => engine !== undefined));
  return [...all]
    .filter((engine) => isEarlier(state, engine))
    .map((engine) => {
      const checkpoints = ofCheckpoints.filter((one) => one === engine).length;
      const sandboxes = ofSandboxes.filter((one) => one === engine).length;
      const image = imageOf(state, engine);
      if (checkpoints + sandboxes === 0) {
        return {
          kind: "Engine",
          name: engine,
          engine,
          what: `is forgotten: nothing needs it; ${image} can be deleted`,
        };
      }
      const what = `keep ${image}: ${checkpoints} checkpoints and ${sandboxes} sandboxes have it`;
      return { kind: "Engine", name: engine, engine, what };
    });
}

function imageOf({ engines }: UpgradeState, engine: string): string {
  return engines.get(engine)?.image ?? "an image that no one has named (--earlier-cell-image)";
}

/** Reads the objects of all namespaces that an upgrade affects. Changes nothing. @throws RametError */
export async function readUpgrade(
  client: KubeClient,
  signal: AbortSignal,
): Promise<Omit<UpgradeState, "cellImage" | "cellEngine">> {
  const configMaps = client.resource(coreResources.configMaps, (value) => EngineMap.parse(value));
  const [known, checkpoints, sandboxes, sets, snapshots] = await Promise.all([
    configMaps.find({ namespace: systemNamespace, name: enginesConfigMap }, { signal }),
    client.of(checkpointKind).list({ signal }),
    client.of(sandboxKind).list({ signal }),
    client.of(sandboxSetKind).list({ signal }),
    client.of(namedSnapshotKind).list({ signal }),
  ]);
  return {
    engines: parseEngineList(known?.data),
    checkpoints: checkpoints.items,
    sandboxes: sandboxes.items,
    sets: sets.items,
    snapshots: snapshots.items,
  };
}

const EngineMap = z.looseObject({ metadata: ObjectMeta, data: z.record(z.string(), z.string()).nullish() });
