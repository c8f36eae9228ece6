import type { SandboxManifest } from "../../api/kinds/sandbox.ts";
import { apiVersion } from "../../api/schema/kind.ts";
import { RametError } from "../../base/errors.ts";
import type { KubeObject } from "../../kube/object.ts";
import { awaitSandbox } from "../../operations/await-sandbox.ts";
import { type ClusterOptions, withCluster } from "../cluster/cluster.ts";
import { clusterObjects } from "../cluster/objects.ts";
import { type Io, writeAll } from "../io.ts";
import { sandboxColumns } from "../object/columns.ts";
import { type WaitFlags, checkLabel, checkName, naming } from "../options.ts";
import { type OutputFormat, renderObject } from "../output/render.ts";
import { platformOf } from "../platform/platform-of.ts";
import type { CreateRequest } from "../platform/platform.ts";
import { exitCodes, reportFailure } from "../report-error.ts";

export interface CreateSandboxOptions extends ClusterOptions, CreateRequest, WaitFlags {
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
