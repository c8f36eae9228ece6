import type { Checkpoint, CheckpointManifest } from "../../api/kinds/checkpoint.ts";
import { allVolumes } from "../../api/kinds/sandbox-parts.ts";
import type { SandboxTemplateSpec } from "../../api/kinds/sandbox-template.ts";
import { hasVolumes, type SandboxManifest } from "../../api/kinds/sandbox.ts";
import { restoreFromAnnotations } from "../../api/names/labels.ts";
import { apiVersion } from "../../api/schema/kind.ts";
import { acsClone } from "../../backends/acs/acs-clone.ts";
import { RametError } from "../../base/errors.ts";
import type { KubeObject } from "../../kube/object.ts";
import { type CloneResult, clonesIn, fork, type Forked } from "../../operations/fork.ts";
import type { Objects } from "../../operations/objects.ts";
import { isBeside, refusePaused, refuseSharedVolumes, templateOfSandbox } from "../beside/clone.ts";
import { type Cluster, type ClusterOptions, withCluster } from "../cluster/cluster.ts";
import { clusterObjects } from "../cluster/objects.ts";
import { exitCodeOf, exitCodes } from "../exit-codes.ts";
import { type Io, printLine, writeAll } from "../io.ts";
import { checkLabel, generateName, volumesAnnotation, type VolumesFlag } from "../options.ts";
import { sandboxColumns } from "../object/columns.ts";
import { type OutputFormat, renderList } from "../output/render.ts";
import { reportError, reportFailure } from "../report-error.ts";

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
    const objects = clusterObjects(io, cluster);
    const settled = await fork(objects, {
      checkpoint: manifest(cluster, options, { beside, isPaused, hasVolumes: hasVolumes(source) }),
      count: options.count,
      clone: (checkpoint, at) =>
        objects.sandboxes.create(cloneOf(cluster, checkpoint, { ...options, at, template })).catch(withForkHint),
      // Other controllers reject clones of an unfinished checkpoint.
      isEarly: () => !beside,
      goal: options.paused === true ? "paused" : "loaded",
      discards: false,
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
 * pause has stored. Volumes are captured at the same moment, unless the clones are to have others.
 */
function manifest(
  cluster: Cluster,
  { sandbox, keepCheckpoint, volumes }: ForkOptions,
  { beside, isPaused, hasVolumes }: { beside: boolean; isPaused: boolean; hasVolumes: boolean },
): CheckpointManifest {
  return {
    apiVersion,
    kind: "Checkpoint",
    metadata: { generateName: generateName(`${sandbox}-fork`), namespace: cluster.namespace },
    spec: {
      ...(beside ? { podName: sandbox } : { sandboxName: sandbox }),
      ...(isPaused ? {} : { persistentContents: ["memory", "filesystem"] }),
      ...(hasVolumes && !beside && volumes === undefined ? { volumes: [allVolumes], consistency: "atomic" } : {}),
      ...(keepCheckpoint === true ? {} : { ttlAfterFinished: "1d" }),
    },
  };
}

interface CloneOptions extends ForkOptions {
  at: number;
  /** The source's, for other controllers. @default Ramet's controllers add it */
  template: SandboxTemplateSpec | undefined;
}

function cloneOf(cluster: Cluster, { status }: Checkpoint, options: CloneOptions): SandboxManifest {
  const { sandbox, at, namePrefix, template, paused = false } = options;
  const names =
    namePrefix === undefined ? { generateName: generateName(sandbox) } : { name: `${namePrefix}-${at + 1}` };
  const checkpointId = status?.checkpointId ?? "";
  const { annotations, spec } =
    template === undefined
      ? {
          annotations: { ...volumesAnnotation(options), [restoreFromAnnotations[0]]: checkpointId },
          spec: paused ? { paused } : {},
        }
      : acsClone(template, checkpointId);
  return { apiVersion, kind: "Sandbox", metadata: { ...names, namespace: cluster.namespace, annotations }, spec };
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
