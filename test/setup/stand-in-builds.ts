import { Checkpoint, type CheckpointPart, hasLayer } from "../../src/api/kinds/checkpoint.ts";
import { NamedSnapshot, type NamedSnapshotSpec } from "../../src/api/kinds/named-snapshot.ts";
import type { NamedSnapshotStatus } from "../../src/api/kinds/named-snapshot-status.ts";
import { Sandbox } from "../../src/api/kinds/sandbox.ts";
import { annotations, finalizers, restoreFromAnnotations } from "../../src/api/names/labels.ts";
import { isRollbackPending, rollbackRequest } from "../../src/api/names/rollback-request.ts";
import { digestOf } from "../../src/api/schema/digest.ts";
import { Contents, type ReplacedPrograms } from "../../src/api/schema/metadata.ts";
import { snapshotDigest } from "../../src/api/snapshot/snapshot-digest.ts";
import { RametError } from "../../src/base/errors.ts";
import type { Attempt } from "../../src/controllers/cluster/attempts.ts";
import { bootRequest, builderSandbox, captureCheckpoint } from "../../src/controllers/named-snapshot/apply.ts";
import { ownCloning } from "../../src/controllers/named-snapshot/cloning.ts";
import { builderName, stepCheckpointName, versionCheckpointName } from "../../src/controllers/named-snapshot/names.ts";
import { planSnapshot } from "../../src/controllers/named-snapshot/plan.ts";
import type {
  DesiredVersion,
  EngineFacts,
  SnapshotAction,
  SnapshotPlan,
  SnapshotState,
} from "../../src/controllers/named-snapshot/state.ts";
import type { StepOutcome } from "../../src/controllers/named-snapshot/steps/step.ts";

const base = { template: { spec: { containers: [{ name: "main", image: "python" }] } } };
const template = { template: { name: "base" } };
export const defaultSpec: NamedSnapshotSpec = {
  from: template,
  recipe: [],
  contents: ["memory", "filesystem"],
  keepVersions: 5,
  deletionPolicy: "Retain",
  stepCache: "EveryStep",
  layers: false,
  engineUpgrade: "Auto",
};
/**
 * A stand-in for everything around the planner. It applies actions immediately, and their results are visible immediately.
 * It proves that the planner handles results, failures and crashes in any order. It proves nothing about lagging caches,
 * the API server or cells.
 */
export class StandInWorld {
  status: NamedSnapshotStatus | undefined;
  spec = defaultSpec;
  readonly checkpoints = new Map<string, Checkpoint>();
  builders: Sandbox[] = [];
  attempts = new Map<string, Attempt<StepOutcome>>();
  /** By builder UID, and the layer on which it has booted since: the indexes of the steps started in it, in order. */
  readonly startedAt = new Map<string, number[]>();
  isDeleted = false;
  /** False: controllers of an earlier release, or beside others. */
  hasLayers = true;
  /** Those that a boot on a layer has ended, and those that run then. */
  programs: ReplacedPrograms | undefined;
  /** Stands for the engine too. */
  cellImage = "cell:1";
  now = new Date(at);
  engines: Partial<EngineFacts> & Pick<EngineFacts, "source"> = { source: "current" };
  referrers: [number, string[]][] = [];
  request: string | undefined;
  #count = 0;

  step(): SnapshotPlan {
    const plan = planSnapshot(this.state());
    for (const action of plan.actions) this.#apply(action);
    if (plan.status !== undefined) this.status = plan.status;
    for (const action of plan.afterStatus ?? []) this.#apply(action);
    return plan;
  }

  /** Runs until nothing changes; everything that was started succeeds or fails. */
  settle(): void {
    for (let round = 0; round < 200; round++) {
      const before = JSON.stringify([this.status, [...this.checkpoints.keys()], this.builders.length]);
      this.step();
      const finished = this.finishCheckpoints("Succeeded") + this.startBuilders() + this.finishSteps();
      if (
        finished === 0 &&
        before === JSON.stringify([this.status, [...this.checkpoints.keys()], this.builders.length])
      )
        return;
    }
    throw new Error(`the status keeps changing: ${JSON.stringify(this.status, null, 1)}`);
  }

  finishCheckpoints(phase: "Succeeded" | "Failed"): number {
    const open = [...this.checkpoints].filter(([, { status }]) => status?.phase === undefined);
    for (const [name, checkpoint] of open) {
      const contents = Contents.optional().parse(checkpoint.spec.persistentContents);
      const source = this.builders.find(({ metadata }) => metadata.name === checkpoint.spec.sandboxName);
      const engine = contents?.includes("memory") === true ? source?.status?.ramet?.engine : undefined;
      const isLayer = checkpoint.metadata.annotations?.[annotations.asLayer] === "true";
      const parts = isLayer && phase === "Succeeded" ? [layerPart(`id-${name}`)] : undefined;
      const ramet = { contents, ...(engine !== undefined && { engine }), ...(parts && { parts }) };
      this.checkpoints.set(name, { ...checkpoint, status: { phase, checkpointId: `id-${name}`, ramet } });
    }
    return open.length;
  }

  /** The sandboxes that have to boot on a layer cannot, and run on. */
  refuseBoot(): void {
    const refused = { type: "RolledBack", status: "False" as const, reason: "r", message: "", lastTransitionTime: at };
    for (const { status } of this.#answerBoots()) status?.conditions?.push(refused);
  }

  #answerBoots(): Sandbox[] {
    const booting = this.builders.filter(isRollbackPending);
    for (const { metadata, status } of booting)
      Object.assign(status?.ramet ?? {}, {
        rollback: { request: rollbackRequest({ metadata })?.digest, programs: this.programs },
      });
    return booting;
  }

  startBuilders(): number {
    const booting = this.#answerBoots();
    const waiting = this.builders.filter(({ status }) => status === undefined);
    const engineOf = ({ metadata }: Sandbox): string => {
      const from = metadata.annotations?.[restoreFromAnnotations[0]];
      const base = [...this.checkpoints.values()].find(({ status }) => status?.checkpointId === from);
      return base?.status?.ramet?.engine ?? this.cellImage;
    };
    const conditions = [{ type: "Ready", status: "True" as const, reason: "r", message: "", lastTransitionTime: at }];
    this.builders = this.builders.map((one) =>
      one.status === undefined
        ? { ...one, status: { phase: "Running", conditions, ramet: { engine: engineOf(one) } } }
        : one,
    );
    return waiting.length + booting.length;
  }

  finishSteps(): number {
    const open = [...this.attempts].filter(([, { state }]) => state === "running");
    for (const [id] of open) {
      const index = Number(id.split("/")[1]);
      const failed = this.spec.recipe[index]?.run === "fails";
      const value = { milliseconds: 1, log: "", exitCode: failed ? 1 : 0, ...(failed && { error: "exit code 1" }) };
      this.attempts.set(id, { state: "done", value });
    }
    return open.length;
  }

  /** Simulates a restart of the controller: its memory is lost. */
  crash(): void {
    this.attempts = new Map();
  }

  loseBuilder(): void {
    this.builders = this.builders.map((one) => ({
      ...one,
      status: { ...one.status, phase: "Failed", message: "lost" },
    }));
  }

  state(): SnapshotState {
    const snapshot = NamedSnapshot.parse({
      apiVersion: "ramet.dev/v1alpha1",
      kind: "NamedSnapshot",
      metadata: {
        ...meta("s"),
        finalizers: [finalizers.namedSnapshot],
        ...(this.request !== undefined && { annotations: { [annotations.buildRequest]: this.request } }),
        ...(this.isDeleted && { deletionTimestamp: at }),
      },
      spec: this.spec,
      status: this.status,
    });
    const digest = snapshotDigest({
      ...this.spec,
      from: { template: base },
      copied: new Map(),
      hasLayers: this.hasLayers,
    });
    const desired: DesiredVersion = {
      digest,
      origin: { kind: "template", spec: base },
      parent: "template/base",
      copied: new Map(),
      inheritedSecrets: [],
      secrets: [],
    };
    const succeeded = [...this.checkpoints.values()].filter(({ status }) => status?.phase === "Succeeded");
    const { build, steps = [] } = this.status ?? {};
    const name = build && builderName("s", build);
    const builder = this.builders.find(({ metadata }) => metadata.name === name);
    const last = steps.findLast(({ state }) => state === "Succeeded");
    const next = steps.findIndex(({ state }) => state !== "Succeeded");
    return {
      snapshot,
      desired,
      cloneable: new Map(succeeded.map((one) => [one.metadata.name, one])),
      versionCheckpoint: this.checkpoints.get(versionCheckpointName("s", digest.digest)),
      captured: new Map(
        succeeded.flatMap((one) => {
          const of = one.metadata.annotations?.["ramet.dev/step-digest"];
          const isLayer = digest.layers && hasLayer(one.status?.ramet?.parts);
          const isUsable = isLayer || one.status?.ramet?.engine === this.cellImage;
          return of === undefined || !isUsable ? [] : [[of, one] as const];
        }),
      ),
      stepCheckpoint:
        last && this.checkpoints.get(stepCheckpointName("s", last.digest, builder?.status?.ramet?.engine)),
      sourceCheckpoint: undefined,
      builder,
      orphans: this.builders.filter((one) => one !== builder),
      made: [...this.checkpoints.values()],
      ignored: [],
      fetchWait: undefined,
      attempt: builder && this.attempts.get(`${builder.metadata.uid}/${next}`),
      engines: {
        cellImage: this.cellImage,
        earlier: new Set(
          succeeded
            .filter(({ status }) => (status?.ramet?.engine ?? this.cellImage) !== this.cellImage)
            .map(({ metadata }) => metadata.name),
        ),
        ...this.engines,
      },
      referrers: new Map(this.referrers),
      followers: [],
      now: this.now,
    };
  }

  #apply(action: SnapshotAction): void {
    switch (action.do) {
      case "createBuilder":
        if (this.builders.some(({ metadata }) => metadata.name === action.name)) return;
        this.builders.push(Sandbox.parse(this.#made(builderSandbox(this.state().snapshot, action, ownCloning))));
        return;
      case "bootBuilder":
        this.#boot(action);
        return;
      case "deleteSandbox":
        this.builders = this.builders.filter(({ metadata }) => metadata.uid !== action.sandbox.metadata.uid);
        return;
      case "capture":
        if (this.checkpoints.has(action.name)) return;
        this.checkpoints.set(
          action.name,
          Checkpoint.parse(this.#made(captureCheckpoint(this.state().snapshot, action, ownCloning))),
        );
        return;
      case "deleteCheckpoint":
        this.checkpoints.delete(action.checkpoint.metadata.name);
        return;
      case "markStep":
        this.#mark(action);
        return;
      case "startStep":
        this.#start(action);
        return;
      case "forgetStep":
        this.attempts.delete(`${action.builderUid}/${action.index}`);
        return;
      default:
    }
  }

  #boot(action: Extract<SnapshotAction, { do: "bootBuilder" }>): void {
    const { annotations: requested } = bootRequest(action);
    this.builders = this.builders.map((one) =>
      one.metadata.uid === action.builder.metadata.uid
        ? { ...one, metadata: { ...one.metadata, annotations: { ...one.metadata.annotations, ...requested } } }
        : one,
    );
  }

  #mark({ checkpoint, unneededSince }: Extract<SnapshotAction, { do: "markStep" }>): void {
    const { [annotations.unneededSince]: _, ...others } = checkpoint.metadata.annotations ?? {};
    const mark = unneededSince === undefined ? {} : { [annotations.unneededSince]: unneededSince };
    const metadata = { ...checkpoint.metadata, annotations: { ...others, ...mark } };
    this.checkpoints.set(metadata.name, { ...checkpoint, metadata });
  }

  /** A guest knows a step that an earlier controller started only if the step had really started in it. */
  #start({ index, builder, fresh }: Extract<SnapshotAction, { do: "startStep" }>): void {
    const { uid } = builder.metadata;
    const boot = uid + (rollbackRequest(builder)?.to ?? "");
    const startedAt = this.startedAt.get(boot) ?? [];
    if (!fresh && !startedAt.includes(index)) {
      this.attempts.set(`${uid}/${index}`, { state: "failed", error: new RametError("SandboxLost", "not known") });
      return;
    }
    if (fresh) this.startedAt.set(boot, [...startedAt, index]);
    this.attempts.set(`${uid}/${index}`, { state: "running", failures: 0 });
  }

  #made(manifest: { metadata: object }) {
    return { ...manifest, metadata: { ...manifest.metadata, ...meta(undefined, `u${++this.#count}`) } };
  }
}

const at = "2030-01-01T00:00:00.000Z";
export function meta(name: string | undefined, uid = "u") {
  return { ...(name !== undefined && { name }), namespace: "t", uid, resourceVersion: "1", creationTimestamp: at };
}

/** The part of a checkpoint that is a layer, in whose list it is the last one. */
function layerPart(checkpointId: string): CheckpointPart {
  const handle = digestOf(checkpointId);
  return {
    backend: "cell",
    handle,
    contents: ["filesystem"],
    cutAt: at,
    sizeBytes: 1,
    consistency: "atomic",
    layers: [{ checkpointId, manifestDigest: handle, sizeBytes: 1 }],
  };
}
