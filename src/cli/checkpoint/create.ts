import { Checkpoint, type CheckpointManifest, type Consistency } from "../../api/kinds/checkpoint.ts";
import type { Sandbox } from "../../api/kinds/sandbox.ts";
import { annotations } from "../../api/names/labels.ts";
import { apiVersion } from "../../api/schema/kind.ts";
import type { Problem } from "../../api/schema/problem.ts";
import { hasEnded, whyNeverServing } from "../../api/state/sandbox.ts";
import { defined } from "../../base/defined.ts";
import { ttlPattern } from "../../base/duration.ts";
import { RametError } from "../../base/errors.ts";
import { untilCaptured } from "../../operations/capture.ts";
import { type Cluster, type ClusterOptions, withCluster } from "../cluster/cluster.ts";
import { clusterObjects } from "../cluster/objects.ts";
import { type Io, printLine, writeAll } from "../io.ts";
import { checkpointColumns } from "../object/columns.ts";
import { findObject } from "../object/user-kind.ts";
import { type WaitFlags, checkName, naming } from "../options.ts";
import { type OutputFormat, renderObject } from "../output/render.ts";
import { platformOf } from "../platform/platform-of.ts";
import type { Platform } from "../platform/platform.ts";
import { exitCodes, reportFailure } from "../report-error.ts";

export interface CreateCheckpointOptions extends ClusterOptions, WaitFlags {
  sandbox: string;
  name?: string;
  /** `filesystem`, or `memory` and `filesystem`; with either or alone, `volumes`. @default the sandbox's own */
  contents?: readonly string[];
  /** The volumes to capture. @default with `volumes` in `contents`, all */
  volumes?: readonly string[];
  consistency?: Consistency;
  requireAtomic?: boolean;
  /** Such as `30s`, `30m`, `30h`, `30d`. */
  ttl?: string;
  keepRunning?: boolean;
  /** `table` prints only the id. */
  output: OutputFormat;
}

/**
 * `ramet checkpoint create`: captures a sandbox. The last line of the output is the checkpoint's id; with `--no-wait` its name, where
 * the controllers choose the id later.
 */
export async function createCheckpoint(io: Io, options: CreateCheckpointOptions): Promise<number> {
  check(options);
  return withCluster(io, options, async (cluster) => {
    const source = await cluster.get(cluster.sandboxes, options.sandbox);
    const never = hasEnded(source) ? whyNeverServing(source) : undefined;
    if (never !== undefined) throw notCapturable(source, never);
    const platform = await platformOf(io, cluster);
    const created = await cluster.create(cluster.checkpoints, manifest(cluster, options, platform));
    await platform.keep(created, source);
    const onFailure: OnFailure = async ({ code }) => {
      if (!refusals.has(code)) return;
      await cluster.checkpoints.delete(created.metadata, { uid: created.metadata.uid, signal: io.signal });
    };
    return reportCreated(io, cluster, withId(created, platform), { ...options, onFailure });
  });
}

/** A sandbox that starts is waited for. One that has ended is refused before a Checkpoint exists, which could only fail. */
function notCapturable({ metadata: { name } }: Sandbox, why: Problem): RametError {
  return new RametError("SandboxNotReady", `The sandbox ${name} cannot be captured: ${why.cause}`, {
    hint: "Roll it back to an earlier checkpoint, or create it again, then capture it",
  });
}

/** Nothing was captured, and the sandbox is as before, so the failed object would only have to be removed. */
const refusals: ReadonlySet<string> = new Set(["SandboxNotReady", "NotFound"]);

/** A new checkpoint with the id that it will have. */
export function withId(created: Checkpoint, platform: Pick<Platform, "idOf">): Checkpoint {
  return { ...created, status: { ...defined({ checkpointId: platform.idOf(created) }), ...created.status } };
}

/** `ramet checkpoint wait`: waits until a checkpoint can be cloned, and prints its id. */
export async function waitForCheckpoint(
  io: Io,
  cluster: Cluster,
  { name, ...options }: Pick<CreateCheckpointOptions, "timeout" | "output"> & { name: string },
): Promise<number> {
  const found = Checkpoint.parse(await findObject(cluster, "checkpoint", name));
  return reportCreated(io, cluster, found, { ...options, wait: true });
}

/** Waits for a new checkpoint if that is requested, and prints it. @returns the exit code */
export async function reportCreated(
  io: Io,
  cluster: Cluster,
  created: Checkpoint,
  options: Pick<CreateCheckpointOptions, "wait" | "timeout" | "output"> & { onFailure?: OnFailure },
): Promise<number> {
  const wait = { timeoutMilliseconds: options.timeout, signal: io.signal };
  const settled = options.wait
    ? await untilCaptured(clusterObjects(io, cluster, { areNew: true, output: options.output }), created, wait)
    : { object: created };
  if ("failure" in settled) {
    await options.onFailure?.(settled.failure);
    return reportFailure(io, settled.failure, options.output);
  }
  // As a table, only its id.
  const id = options.output === "table" ? settled.object.status?.checkpointId : undefined;
  const rendering = { output: options.output, columns: checkpointColumns(), now: io.clock.now() };
  const isDocument = options.output === "json" || options.output === "yaml";
  const plain = `${id ?? settled.object.metadata.name}\n`;
  await writeAll(io.stdout, isDocument ? renderObject(settled.object, rendering) : plain);
  if (!options.wait && options.output === "table") {
    const { name, namespace } = created.metadata;
    printLine(io.stderr, `Wait until it can be cloned with: ramet checkpoint wait ${name} -n ${namespace}`);
  }
  return exitCodes.ok;
}

type OnFailure = (failure: RametError) => Promise<void>;

function check({ name, contents, ttl }: CreateCheckpointOptions): void {
  if (name !== undefined) checkName(name, "--name");
  if (contents !== undefined && !areContents(contents)) {
    throw new RametError("InvalidArgument", `Invalid --contents: ${JSON.stringify(contents.join(","))}`, {
      hint: "Use filesystem, or memory,filesystem: memory cannot be restored without its files; add volumes, or use it alone",
    });
  }
  checkTtl(ttl);
}

/** @throws RametError `InvalidArgument` */
export function checkTtl(ttl: string | undefined): void {
  if (ttl === undefined || ttlPattern.test(ttl)) return;
  throw new RametError("InvalidArgument", `Invalid --ttl: ${JSON.stringify(ttl)}`, {
    hint: "Write a number and a unit, such as 30s, 30m, 30h or 30d",
  });
}

function areContents(words: readonly string[]): boolean {
  const known = words.every((word) => allContents.includes(word)) && new Set(words).size === words.length;
  return known && words.length > 0 && (!words.includes("memory") || words.includes("filesystem"));
}

const allContents: readonly string[] = ["memory", "filesystem", "volumes"];

function manifest(cluster: Cluster, options: CreateCheckpointOptions, platform: Platform): CheckpointManifest {
  const { sandbox, name, contents, volumes, consistency, requireAtomic, ttl, keepRunning } = options;
  return {
    apiVersion,
    kind: "Checkpoint",
    metadata: {
      ...naming(name, sandbox),
      namespace: cluster.namespace,
      annotations: { [annotations.waitsTurn]: "true" },
    },
    spec: {
      ...platform.captureOf(sandbox),
      ...defined({
        keepRunning,
        persistentContents: contents && allContents.filter((word) => contents.includes(word)),
        volumes: volumes && [...volumes],
        consistency,
        requireAtomic,
        ttlAfterFinished: ttl,
      }),
    },
  };
}
