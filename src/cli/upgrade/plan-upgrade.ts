import type { KnownEngine } from "../../api/cell/engine-list.ts";
import type { Checkpoint } from "../../api/kinds/checkpoint.ts";
import type { NamedSnapshot } from "../../api/kinds/named-snapshot.ts";
import type { SandboxSet } from "../../api/kinds/sandbox-set.ts";
import type { Sandbox } from "../../api/kinds/sandbox.ts";
import { labels } from "../../api/names/labels.ts";

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
  kind: "NamedSnapshot" | "SandboxSet" | "Sandbox" | "Engine";
  /** Absent for an engine. */
  namespace?: string;
  name: string;
  engine?: string;
  what: string;
}

/** What an upgrade to a cell image does. A pure function. */
export function planUpgrade(state: UpgradeState): UpgradeStep[] {
  return [...planSnapshots(state), ...planSets(state), ...planPaused(state), ...planEngines(state)];
}

function isEarlier({ engines, cellImage, cellEngine }: UpgradeState, engine: string): boolean {
  return cellEngine === undefined ? engines.get(engine)?.name !== cellImage : engine !== cellEngine;
}

function planSnapshots(state: UpgradeState): UpgradeStep[] {
  return state.snapshots.flatMap((snapshot): UpgradeStep[] => {
    const { metadata, spec, status } = snapshot;
    const current = status?.versions?.find(({ version }) => version === status.version);
    const engine = current?.engine;
    if (current === undefined || engine === undefined || !isEarlier(state, engine)) return [];
    const what = `version ${current.version} ${fateOf(spec)}`;
    return [{ kind: "NamedSnapshot", namespace: metadata.namespace, name: metadata.name, engine, what }];
  });
}

function fateOf({ from, engineUpgrade, suspend, pinnedVersion }: NamedSnapshot["spec"]): string {
  if (from.checkpoint !== undefined || from.sandbox !== undefined) return "keeps its engine: its source is memory";
  if (pinnedVersion !== undefined) return "keeps its engine: it is pinned";
  if (suspend === true) return "keeps its engine until spec.suspend is removed";
  if (engineUpgrade === "Manual") return "keeps its engine until a build is requested (engineUpgrade: Manual)";
  if (from.snapshot !== undefined) return `is captured again after the named snapshot ${from.snapshot.name}`;
  return "is captured again in the background, and stays current until then";
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
  return state.sandboxes.flatMap(({ metadata: { namespace, name }, status }): UpgradeStep[] => {
    const engine = status?.ramet?.engine;
    if (status?.phase !== "Paused" || engine === undefined || !isEarlier(state, engine)) return [];
    return [{ kind: "Sandbox", namespace, name, engine, what: `is paused, and resumes in ${imageOf(state, engine)}` }];
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
