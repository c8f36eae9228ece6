import type { Sandbox } from "../../api/kinds/sandbox.ts";
import { RametError } from "../../base/errors.ts";
import { isConditionTrue } from "../../kube/conditions.ts";
import { describeState, failureOf } from "../../kube/reported-state.ts";
import type { Cluster } from "../cluster/cluster.ts";
import type { Io } from "../io.ts";
import { followRequest, type Settled } from "../wait/follow.ts";

export interface SandboxWait {
  /** The object as returned by the create or patch request. */
  sandbox: Sandbox;
  timeoutMilliseconds: number;
  /** @default the sandbox is Running and Ready */
  isReached?: (sandbox: Sandbox) => boolean;
  /** Whether this command has created it. @default false */
  isNew?: boolean;
  /** Why the sandbox will not get there, although it has not ended. @default it never gives up */
  failureIn?: (sandbox: Sandbox) => RametError | undefined;
}

/**
 * Waits until a sandbox is ready (or `isReached` holds), or cannot become so any more.
 *
 * @throws RametError `Timeout` or `Canceled`
 */
export async function untilReady(io: Io, cluster: Cluster, wait: SandboxWait): Promise<Settled<Sandbox>> {
  const { name } = wait.sandbox.metadata;
  const { isReached = isReady, failureIn = () => undefined } = wait;
  const last = await followRequest(io, {
    resource: cluster.sandboxes,
    from: wait.sandbox,
    noun: "sandbox",
    timeoutMilliseconds: wait.timeoutMilliseconds,
    isNew: wait.isNew ?? false,
    isOver: (sandbox) => hasEnded(sandbox) || isReached(sandbox) || failureIn(sandbox) !== undefined,
    describe: describeState,
    describeProgress: (sandbox) =>
      sandbox !== undefined && isReached(sandbox) ? reached(sandbox) : describeState(sandbox),
  });
  const failure = last !== undefined && !hasEnded(last) && !isReached(last) ? failureIn(last) : undefined;
  return failure === undefined ? settled(name, last, isReached) : { failure };
}

function settled(
  name: string,
  sandbox: Sandbox | undefined,
  isReached: (sandbox: Sandbox) => boolean,
): Settled<Sandbox> {
  if (sandbox === undefined || sandbox.metadata.deletionTimestamp !== undefined) {
    return { failure: new RametError("Conflict", `The sandbox ${name} was deleted during the wait`) };
  }
  if (isReached(sandbox)) return { object: sandbox };
  const ended = sandbox.status?.phase === "Succeeded" ? "has ended" : "failed";
  return { failure: failureOf(`The sandbox ${name} ${ended}`, sandbox, "SandboxNotReady") };
}

export function isPaused({ status }: Sandbox): boolean {
  return status?.phase === "Paused";
}

export function isReady({ status }: Sandbox): boolean {
  return status?.phase === "Running" && isConditionTrue(status.conditions, "Ready");
}

function hasEnded({ metadata, status }: Sandbox): boolean {
  return metadata.deletionTimestamp !== undefined || status?.phase === "Failed" || status?.phase === "Succeeded";
}

function reached({ status }: Sandbox): string {
  return status?.phase === "Running" ? "Running and ready" : (status?.phase ?? "");
}
