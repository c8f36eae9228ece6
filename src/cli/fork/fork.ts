import type { Checkpoint, CheckpointManifest } from "../../api/kinds/checkpoint.ts";
import type { Sandbox } from "../../api/kinds/sandbox.ts";
import { apiVersion } from "../../api/schema/kind.ts";
import { RametError } from "../../base/errors.ts";
import { isBeside, refusePaused, refuseSharedVolumes, templateOfSandbox } from "../beside/clone.ts";
import { untilSucceeded } from "../checkpoint/until-succeeded.ts";
import { type Cluster, type ClusterOptions, withCluster } from "../cluster/cluster.ts";
import { exitCodeOf, exitCodes } from "../exit-codes.ts";
import { type Io, printLine, writeAll } from "../io.ts";
import { checkLabel, generateName, volumesAnnotation, type VolumesFlag } from "../options.ts";
import { sandboxColumns } from "../object/columns.ts";
import { type OutputFormat, renderList } from "../output/render.ts";
import { reportError, reportFailure } from "../report-error.ts";
import type { Settled } from "../wait/follow.ts";
import { type CloneRequest, type CloneResult, createClone, followClone, untilStarted } from "./make-clone.ts";

export interface ForkOptions extends ClusterOptions, VolumesFlag {
  sandbox: string;
  count: number;
  namePrefix?: string;
  keepCheckpoint?: boolean;
  paused?: boolean;
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
    const source = await cluster.get(cluster.sandboxes, options.sandbox, io.signal);
    const isPaused = source.status?.phase === "Paused";
    const beside = await isBeside(cluster, io.signal);
    if (beside && isPaused) throw cannotFork(options.sandbox);
    if (beside) {
      refuseSharedVolumes(options);
      refusePaused(options);
    }
    const template = beside ? await templateOfSandbox(cluster, source, io.signal) : undefined;
    const request = manifest(cluster, options, { beside, isPaused });
    const created = await cluster.create(cluster.checkpoints, request, io.signal);
    const started = (await untilStarted(io, cluster, created, options.timeout)) ?? created;
    // Other controllers reject clones of an unfinished checkpoint.
    const isEarly = !beside && started.status?.phase === "Creating";
    const made = isEarly ? await createClones(io, cluster, started, options) : [];
    const taken = await untilTaken(io, cluster, { started, made }, options);
    if ("failure" in taken) {
      await removeClones(io, cluster, made);
      await removeCheckpoint(io, cluster, created);
      return reportFailure(io, taken.failure, options.output);
    }
    // The capture completed before this command saw it start.
    const all = made.length > 0 ? made : await createClones(io, cluster, taken.object, { ...options, template });
    const results = await Promise.all(all.map((one) => followClone(io, cluster, one, options.timeout)));
    const exitCode = await report(io, results, options);
    await leaveCheckpoint(io, cluster, { checkpoint: taken.object, results, keep: options.keepCheckpoint === true });
    return exitCode;
  });
}

function check({ count, namePrefix }: ForkOptions): void {
  if (count < 1) throw new RametError("InvalidArgument", "--count must be 1 or more");
  if (namePrefix !== undefined) checkLabel(`${namePrefix}-${count}`, "--name-prefix with its number");
}

/** Other controllers than Ramet's capture running sandboxes only. */
function cannotFork(name: string): RametError {
  return new RametError("SandboxNotReady", `Cannot fork the sandbox ${name}: it is paused`, {
    hint: `Resume it first with: ramet sandbox resume ${name}`,
  });
}

/**
 * Always with memory and files, whatever the sandbox's default: a fork continues where its source is. A paused source has what its
 * pause has stored.
 */
function manifest(
  cluster: Cluster,
  { sandbox, keepCheckpoint }: ForkOptions,
  { beside, isPaused }: { beside: boolean; isPaused: boolean },
): CheckpointManifest {
  return {
    apiVersion,
    kind: "Checkpoint",
    metadata: { generateName: generateName(`${sandbox}-fork`), namespace: cluster.namespace },
    spec: {
      ...(beside ? { podName: sandbox } : { sandboxName: sandbox }),
      ...(isPaused ? {} : { persistentContents: ["memory", "filesystem"] }),
      ...(keepCheckpoint === true ? {} : { ttlAfterFinished: "1d" }),
    },
  };
}

function createClones(
  io: Io,
  cluster: Cluster,
  { status }: Checkpoint,
  options: ForkOptions & Pick<CloneRequest, "template">,
): Promise<CloneResult[]> {
  const { sandbox, count, namePrefix, template, paused = false } = options;
  const naming = Array.from({ length: count }, (_, at) =>
    namePrefix === undefined ? { generateName: generateName(sandbox) } : { name: `${namePrefix}-${at + 1}` },
  );
  const checkpointId = status?.checkpointId ?? "";
  const annotations = volumesAnnotation(options);
  return Promise.all(
    naming.map((names) => createClone(io, cluster, { names, checkpointId, annotations, paused, template })),
  );
}

/** Prints the clones that are still created if the wait fails. @throws RametError `Timeout` or `Canceled` */
async function untilTaken(
  io: Io,
  cluster: Cluster,
  { started, made }: { started: Checkpoint; made: readonly CloneResult[] },
  { timeout }: ForkOptions,
): Promise<Settled<Checkpoint>> {
  try {
    return await untilSucceeded(io, cluster, started, timeout);
  } catch (error) {
    const names = clonesIn(made).map(({ metadata }) => metadata.name);
    if (names.length > 0) printLine(io.stderr, `The clones ${names.join(", ")} will still be created.`);
    throw error;
  }
}

function clonesIn(results: readonly CloneResult[]): Sandbox[] {
  return results.flatMap((result) => ("object" in result ? [result.object] : []));
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

interface Leaving {
  checkpoint: Checkpoint;
  results: readonly CloneResult[];
  keep: boolean;
}

/** A clone that is not finished may still need the checkpoint. */
async function leaveCheckpoint(io: Io, cluster: Cluster, { checkpoint, results, keep }: Leaving): Promise<void> {
  const { name } = checkpoint.metadata;
  const mayBeNeeded = results.some((result) => "failure" in result && !result.isOver);
  if (keep) printLine(io.stderr, `The checkpoint ${checkpoint.status?.checkpointId ?? name} is kept.`);
  else if (mayBeNeeded) printLine(io.stderr, `The checkpoint ${name} is kept for a day: a clone may still need it.`);
  else await removeCheckpoint(io, cluster, checkpoint);
}

/** Deletes the clones of a capture that failed: they can never start. */
async function removeClones(io: Io, cluster: Cluster, made: readonly CloneResult[]): Promise<void> {
  for (const { metadata } of clonesIn(made)) {
    const { name, namespace, uid } = metadata;
    await cluster.sandboxes.delete({ name, namespace }, { uid, signal: io.signal }).catch((error: unknown) => {
      printLine(io.stderr, `Cannot delete the failed clone ${name}: ${RametError.from(error).message}`);
    });
  }
}

async function removeCheckpoint(io: Io, cluster: Cluster, { metadata }: Checkpoint): Promise<void> {
  const { name, namespace, uid } = metadata;
  try {
    await cluster.checkpoints.delete({ name, namespace }, { uid, signal: io.signal });
  } catch (error) {
    // The clones exist, so this is not a failure of the command.
    const why = RametError.from(error).message;
    printLine(io.stderr, `Cannot delete the checkpoint ${name}: ${why}; it is deleted automatically after a day`);
  }
}
