import type { Checkpoint, CheckpointManifest } from "../../api/kinds/checkpoint.ts";
import type { SandboxManifest } from "../../api/kinds/sandbox.ts";
import { annotations } from "../../api/names/labels.ts";
import { apiVersion } from "../../api/schema/kind.ts";
import { RametError } from "../../base/errors.ts";
import type { KubeObject } from "../../kube/object.ts";
import { type CloneResult, type Forked, clonesIn, fork } from "../../operations/fork.ts";
import type { Objects } from "../../operations/objects.ts";
import { type Cluster, type ClusterOptions, withCluster } from "../cluster/cluster.ts";
import { clusterObjects } from "../cluster/objects.ts";
import { type Io, printLine, writeAll } from "../io.ts";
import { sandboxColumns } from "../object/columns.ts";
import { checkLabel, generateName, naming } from "../options.ts";
import { type OutputFormat, renderList } from "../output/render.ts";
import { platformOf } from "../platform/platform-of.ts";
import type { ForkPlan, ForkRequest } from "../platform/platform.ts";
import { exitCodeOf, exitCodes, reportError, reportFailure } from "../report-error.ts";

export interface ForkOptions extends ClusterOptions, ForkRequest {
  sandbox: string;
  count: number;
  namePrefix?: string;
  keepCheckpoint?: boolean;
  /** Milliseconds, for the checkpoint and then for the clones; `Infinity` waits forever. */
  timeout: number;
  /** `table` prints only the names. */
  output: OutputFormat;
}

/**
 * `ramet fork`: creates one checkpoint with memory, and clones of it. The clones are created before the capture completes, so
 * that the controllers make them ready even if this command is interrupted. The checkpoint is deleted when no clone needs it
 * any more, and otherwise expires after a day.
 */
export async function forkSandbox(io: Io, options: ForkOptions): Promise<number> {
  check(options);
  return withCluster(io, options, async (cluster) => {
    const source = await cluster.get(cluster.sandboxes, options.sandbox);
    const isPaused = source.status?.phase === "Paused";
    const plan = await (await platformOf(io, cluster)).planFork(source, options);
    const objects = clusterObjects(io, cluster);
    const settled = await fork(objects, {
      checkpoint: captureManifest(cluster, options, { plan, isPaused }),
      count: options.count,
      clone: (checkpoint, at) =>
        objects.sandboxes.create(cloneManifest(cluster, checkpoint, { ...options, at, plan })).catch(withForkHint),
      isEarly: () => plan.isEarly,
      goal: options.paused === true ? "paused" : "loaded",
      onGivenUp: (clones) => {
        const names = clones.map(({ metadata }) => metadata.name);
        if (names.length > 0) printLine(io.stderr, `The clones ${names.join(", ")} will still be created.`);
      },
      onOrphan: (object, error) => {
        reportOrphan(io, object, error);
      },
      timeoutMilliseconds: options.timeout,
      signal: io.signal,
    });
    if ("failure" in settled) return reportFailure(io, settled.failure, options.output);
    const exitCode = await report(io, settled.object.clones, options);
    await leaveCheckpoint(io, objects, { ...settled.object, keep: options.keepCheckpoint === true });
    return exitCode;
  });
}

function check({ count, namePrefix }: ForkOptions): void {
  if (namePrefix !== undefined) checkLabel(`${namePrefix}-${count}`, "--name-prefix with its number");
}

/**
 * Always with memory and files, whatever the sandbox's default: a fork continues where its source is. A paused source has what its
 * pause has stored.
 */
function captureManifest(
  cluster: Cluster,
  { sandbox, keepCheckpoint }: ForkOptions,
  { plan, isPaused }: { plan: ForkPlan; isPaused: boolean },
): CheckpointManifest {
  return {
    apiVersion,
    kind: "Checkpoint",
    metadata: {
      generateName: generateName(`${sandbox}-fork`),
      namespace: cluster.namespace,
      annotations: { [annotations.waitsTurn]: "true" },
    },
    spec: {
      ...plan.capture,
      ...(isPaused ? {} : { persistentContents: ["memory", "filesystem"] }),
      ...(keepCheckpoint === true ? {} : { ttlAfterFinished: "1d" }),
    },
  };
}

function cloneManifest(
  { namespace }: Cluster,
  { status }: Checkpoint,
  { sandbox, at, namePrefix, plan }: ForkOptions & { at: number; plan: ForkPlan },
): SandboxManifest {
  const name = namePrefix && `${namePrefix}-${at + 1}`;
  const { annotations, spec } = plan.clone(status?.checkpointId ?? "");
  return { apiVersion, kind: "Sandbox", metadata: { ...naming(name, sandbox), namespace, annotations }, spec };
}

function withForkHint(error: unknown): never {
  const known = RametError.from(error);
  if (known.code !== "AlreadyExists") throw known;
  throw new RametError(known.code, known.message, { hint: "Choose another --name-prefix", cause: error });
}

/** Prints the ready clones to stdout and the failures of the others to stderr. Returns the exit code. */
async function report(io: Io, results: readonly CloneResult[], { output }: ForkOptions): Promise<number> {
  const rendering = { output: output === "table" ? ("name" as const) : output, columns: sandboxColumns };
  await writeAll(io.stdout, renderList(clonesIn(results), { ...rendering, now: io.clock.now() }));
  const failures = results.flatMap((result) => ("failure" in result ? [result] : []));
  for (const { failure } of failures) reportError(io, failure, output);
  const unfinished = failures.find(({ isOver }) => !isOver);
  if (unfinished !== undefined) return exitCodeOf(unfinished.failure.code);
  return failures.length === 0 ? exitCodes.ok : exitCodes.failed;
}

/** A clone that is not finished may still need the checkpoint. */
async function leaveCheckpoint(
  io: Io,
  { checkpoints }: Objects,
  { checkpoint, clones, keep }: Forked & { keep: boolean },
): Promise<void> {
  const { name } = checkpoint.metadata;
  const mayBeNeeded = clones.some((result) => "failure" in result && !result.isOver);
  if (keep) printLine(io.stderr, `The checkpoint ${checkpoint.status?.checkpointId ?? name} is kept.`);
  else if (mayBeNeeded) printLine(io.stderr, `The checkpoint ${name} is kept for a day: a clone may still need it.`);
  else {
    await checkpoints.remove(checkpoint).catch((error: unknown) => {
      reportOrphan(io, checkpoint, RametError.from(error));
    });
  }
}

/** The clones exist, so this is not a failure of the command. */
function reportOrphan(io: Io, { kind, metadata }: KubeObject, { message }: RametError): void {
  const what = kind === "Sandbox" ? `failed clone ${metadata.name}` : `checkpoint ${metadata.name}`;
  const then = kind === "Sandbox" ? "" : "; it is deleted automatically after a day";
  printLine(io.stderr, `Cannot delete the ${what}: ${message}${then}`);
}
