import type { SandboxManifest } from "../../api/kinds/sandbox.ts";
import { apiVersion } from "../../api/schema/kind.ts";
import { RametError } from "../../base/errors.ts";
import type { KubeObject } from "../../kube/object.ts";
import { awaitSandbox } from "../../operations/await-sandbox.ts";
import { resumeChange } from "../../operations/pause.ts";
import { type Cluster, type ClusterOptions, withCluster } from "../cluster/cluster.ts";
import { clusterObjects } from "../cluster/objects.ts";
import { type Io, printLine, writeAll } from "../io.ts";
import { sandboxColumns } from "../object/columns.ts";
import { type VolumesFlag, type WaitFlags, checkLabel, checkName, naming } from "../options.ts";
import { type OutputFormat, renderObject } from "../output/render.ts";
import { platformOf } from "../platform/platform-of.ts";
import type { CreateRequest } from "../platform/platform.ts";
import { exitCodes, reportError, reportFailure } from "../report-error.ts";

/** `ramet sandbox pause` and `resume`: sets `spec.paused` and waits until the status matches. */
export async function pauseSandbox(
  io: Io,
  cluster: Cluster,
  { name, paused, ...options }: WaitFlags & { name: string; paused: boolean },
): Promise<number> {
  const objects = clusterObjects(io, cluster);
  const found = await cluster.get(cluster.sandboxes, name);
  const sandbox = await objects.sandboxes.patch(found, paused ? { spec: { paused } } : resumeChange(found));
  if (!options.wait) {
    printLine(io.stdout, `sandbox ${name} is being ${paused ? "paused" : "resumed"}`);
    return exitCodes.ok;
  }
  const settled = await awaitSandbox(objects, sandbox, {
    goal: paused ? "paused" : "serving",
    timeoutMilliseconds: options.timeout,
    signal: io.signal,
  });
  if ("failure" in settled) return reportFailure(io, paused ? withNextStep(settled.failure, name) : settled.failure);
  printLine(io.stdout, `sandbox ${name} ${paused ? "paused" : "resumed"}`);
  return exitCodes.ok;
}

/** A pause is not tried again: its sandbox keeps running until somebody requests another pause. */
function withNextStep(failure: RametError, name: string): RametError {
  if (failure.code === "Conflict") return failure;
  return new RametError(failure.code, failure.message, {
    hint: `Remove the cause, then try again: ramet sandbox resume ${name} && ramet sandbox pause ${name}`,
    cause: failure,
  });
}

interface RollbackOptions extends VolumesFlag, WaitFlags {
  name: string;
  /** A Checkpoint's name or id, or a version of a named snapshot. */
  to: string;
  /** `table` prints one sentence. */
  output: OutputFormat;
}

/** `ramet rollback`: rolls a sandbox back, and waits for the result. */
export async function rollBackSandbox(io: Io, cluster: Cluster, options: RollbackOptions): Promise<number> {
  const { name, output } = options;
  const sandbox = await cluster.get(cluster.sandboxes, name);
  const platform = await platformOf(io, cluster);
  const { settled, sentence } = await platform.rollBack(sandbox, {
    ...options,
    timeoutMilliseconds: options.timeout,
    signal: io.signal,
  });
  // A checkpoint that does not exist is a wrong argument, which is noticed only by the controllers.
  if ("failure" in settled && settled.failure.code === "NotFound") return reportError(io, settled.failure, output);
  if ("failure" in settled) return reportFailure(io, settled.failure, output);
  const rendering = { output, columns: sandboxColumns, now: io.clock.now() };
  await writeAll(io.stdout, output === "table" ? `${sentence}\n` : renderObject(settled.object, rendering));
  return exitCodes.ok;
}

interface CreateSandboxOptions extends ClusterOptions, CreateRequest, WaitFlags {
  name?: string;
  /** `table` prints only the name. */
  output: OutputFormat;
}

/** `ramet sandbox create`: from a template, an image or a checkpoint. Prints the sandbox's name when it is ready. */
export async function createSandbox(io: Io, options: CreateSandboxOptions): Promise<number> {
  check(options);
  return withCluster(io, options, async (cluster) => {
    const { annotations, spec } = await (await platformOf(io, cluster)).newSandbox(options);
    const metadata = {
      ...naming(options.name, options.template ?? "sandbox"),
      namespace: cluster.namespace,
      annotations,
    };
    const manifest: SandboxManifest = { apiVersion, kind: "Sandbox", metadata, spec };
    const created = await cluster.create(cluster.sandboxes, manifest);
    const { name } = created.metadata;
    const settled = options.wait
      ? await awaitSandbox(clusterObjects(io, cluster, { areNew: true, output: options.output }), created, {
          goal: options.paused === true ? "paused" : "serving",
          isNew: true,
          timeoutMilliseconds: options.timeout,
          signal: io.signal,
        })
      : { object: created };
    if ("failure" in settled) return reportFailure(io, withRemoval(settled.failure, created), options.output);
    const plain = options.output === "table" || options.output === "name";
    const rendering = { output: options.output, columns: sandboxColumns, now: io.clock.now() };
    await writeAll(io.stdout, plain ? `${name}\n` : renderObject(settled.object, rendering));
    return exitCodes.ok;
  });
}

/** The sandbox stays, so that its state can be read. */
function withRemoval({ code, message, hint, retryable, cause }: RametError, { metadata }: KubeObject): RametError {
  const removal = `Remove it with: ramet sandbox rm ${metadata.name} -n ${metadata.namespace}`;
  return new RametError(code, message, { hint: hint ?? removal, retryable, cause });
}

function check({ name, template, image, from, paused }: CreateSandboxOptions): void {
  if (from === "") {
    throw new RametError("InvalidArgument", "--from is empty", {
      hint: "Check that the command that prints the checkpoint's id has succeeded",
    });
  }
  if (name !== undefined) checkLabel(name, "--name");
  if (image === "")
    throw new RametError("InvalidArgument", "--image is empty", { hint: "Name an image, such as python" });
  if (template !== undefined) checkName(template, "--template");
  if (template !== undefined && image !== undefined) {
    throw new RametError("InvalidArgument", "Cannot use both --template and --image", {
      hint: "Use one of the two: a template contains an image",
    });
  }
  if (paused === true && from === undefined) {
    throw new RametError(
      "InvalidArgument",
      "Cannot create a paused sandbox without a checkpoint: it has no state yet",
      { hint: "Add --from CHECKPOINT-ID, or pause the sandbox when it runs: ramet sandbox pause NAME" },
    );
  }
  if (template === undefined && image === undefined && from === undefined) {
    throw new RametError("InvalidArgument", "Cannot create a sandbox without a source", {
      hint: "Add --template NAME, --image IMAGE or --from CHECKPOINT-ID",
    });
  }
}
