import { RametError } from "../../base/errors.ts";
import { awaitSandbox } from "../../operations/await-sandbox.ts";
import { resumeChange } from "../../operations/pause.ts";
import type { Cluster } from "../cluster/cluster.ts";
import { clusterObjects } from "../cluster/objects.ts";
import { exitCodes } from "../exit-codes.ts";
import type { WaitFlags } from "../options.ts";
import { printLine, type Io } from "../io.ts";
import { reportFailure } from "../report-error.ts";

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
