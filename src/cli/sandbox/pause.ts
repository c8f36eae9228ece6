import type { Sandbox } from "../../api/kinds/sandbox.ts";
import { RametError } from "../../base/errors.ts";
import { findCondition } from "../../kube/conditions.ts";
import { failureOf } from "../../kube/reported-state.ts";
import { withCluster, type ClusterOptions } from "../cluster/cluster.ts";
import { exitCodes } from "../exit-codes.ts";
import { printLine, type Io } from "../io.ts";
import { reportFailure } from "../report-error.ts";
import { isPaused, isReady, untilReady } from "./until-ready.ts";

export interface PauseOptions extends ClusterOptions {
  name: string;
  /** True pauses, false resumes. */
  paused: boolean;
  wait: boolean;
  /** Milliseconds; `Infinity` waits forever. */
  timeout: number;
}

/** `ramet sandbox pause` and `resume`: sets `spec.paused` and waits until the status matches. */
export async function pauseSandbox(io: Io, options: PauseOptions): Promise<number> {
  const { name, paused } = options;
  return withCluster(io, options, async (cluster) => {
    const found = await cluster.get(cluster.sandboxes, name, io.signal);
    const sandbox = await cluster.sandboxes.mergePatch(found.metadata, { spec: { paused } }, { signal: io.signal });
    if (!options.wait) {
      printLine(io.stdout, `sandbox ${name} is being ${paused ? "paused" : "resumed"}`);
      return exitCodes.ok;
    }
    const settled = await untilReady(io, cluster, {
      sandbox,
      timeoutMilliseconds: options.timeout,
      ...(paused ? { isReached: isPaused, failureIn: failedPause } : { isReached: isResumed }),
    });
    if ("failure" in settled) return reportFailure(io, settled.failure);
    printLine(io.stdout, `sandbox ${name} ${paused ? "paused" : "resumed"}`);
    return exitCodes.ok;
  });
}

/** A pause is not tried again: its sandbox keeps running until somebody requests another pause. */
function failedPause(sandbox: Sandbox): RametError | undefined {
  const { metadata, status } = sandbox;
  if (status?.observedGeneration !== metadata.generation || !hasFailedPause(sandbox)) return undefined;
  const condition = findCondition(status?.conditions, "SandboxPaused");
  const why = condition?.message.replace(/\. Set spec\.paused to false, then to true, to try again$/, "");
  const { name } = metadata;
  const { code, message } = failureOf(
    `The sandbox ${name} was not paused`,
    { status: { message: why } },
    "EngineFailed",
  );
  return new RametError(code, message, {
    hint: `Remove the cause, then try again: ramet sandbox resume ${name} && ramet sandbox pause ${name}`,
  });
}

/** A sandbox that runs because its pause has failed is resumed when the controllers have noticed it, so that it can be paused again. */
function isResumed(sandbox: Sandbox): boolean {
  return isReady(sandbox) && !hasFailedPause(sandbox);
}

function hasFailedPause({ status }: Sandbox): boolean {
  return (
    status?.phase === "Running" && findCondition(status.conditions, "SandboxPaused")?.reason === "CheckpointFailed"
  );
}
