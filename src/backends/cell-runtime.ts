import { type CellState, guestClientPort, type Identity } from "../api/wire/cell-api.ts";
import { withClientSandboxId } from "../api/pod/client-environment.ts";
import type { Pod } from "../api/schema/pod.ts";
import { type Clock, systemClock } from "../base/clock.ts";
import { defined } from "../base/defined.ts";
import { RametError } from "../base/errors.ts";
import { type Deadline, within } from "../base/within.ts";
import type { CellAddress, CellClient } from "../cell/client/cell-client.ts";
import { containerUser, GuestClient } from "../cell/client/guest-client.ts";
import type { CellCredentials } from "./cluster-keys.ts";
import type { SandboxRef, SandboxRuntime, Started } from "./runtime.ts";

export interface CellRuntimeOptions {
  cells: CellClient;
  credentials: Pick<CellCredentials, "guestToken">;
  /** Reads the current state of a Pod from the API server. */
  findPod: (at: { namespace: string; name: string }) => Promise<Pod | undefined>;
  clock?: Clock;
}

export function cellRuntime({ cells, credentials, findPod, clock = systemClock }: CellRuntimeOptions): SandboxRuntime {
  return {
    async identified(target, signal) {
      if (target.cellKey !== undefined) return target;
      const cellKey = await cells.cellKey(cellAddress(target), signal);
      // In this order: the answer came from the address while it was this Pod's.
      const pod = await findPod(target);
      if (pod !== undefined && hasAddress(pod, target)) return { ...target, cellKey };
      throw new RametError(
        "Unavailable",
        `The sandbox ${target.name} cannot be called: its Pod does not have the address ${target.podIp} any more`,
        { retryable: true, hint: "Check the Pod with kubectl describe pod" },
      );
    },
    async build(target) {
      return (await cells.state(cellAddress(target))).engine;
    },
    async activity(target, signal) {
      return (await cells.state(cellAddress(target), signal)).activity;
    },
    async boot(target, environment, signal) {
      const identity = identityOf(target, environment, credentials);
      const boot = (ended: AbortSignal) => cells.boot(cellAddress(target), { identity }, ended);
      const deadline = { ...startDeadline(clock, "The start of the sandbox"), signal };
      return { ...startOf(await within(deadline, boot)), phases: {} };
    },
    async adopt(target, environment, signal) {
      const identity = identityOf(target, environment, credentials);
      const adopt = (ended: AbortSignal) => cells.identity(cellAddress(target), { identity }, ended);
      const { generation } = await within({ ...startDeadline(clock, "The handover of an identity"), signal }, adopt);
      return { generation };
    },
    async setEgress(target, policy, signal) {
      await cells.setEgress(cellAddress(target), { policy }, signal);
    },
    async setCredentials(target, credentials, signal) {
      await cells.setCredentials(cellAddress(target), { credentials }, signal);
    },
    async setKeys(target, keys) {
      await cells.setKeys(cellAddress(target), { keys });
    },
    useKey: (key) => {
      cells.useKey(key);
    },
    async intendEnd(target, signal) {
      await cells.intendEnd(cellAddress(target), signal);
    },
    async stop(target, reason) {
      const stop = (signal: AbortSignal) => cells.stop(cellAddress(target), reason, signal);
      await within(startDeadline(clock, "Stopping the sandbox"), stop);
    },
    guest: (target, user) =>
      new GuestClient({
        dial: (signal) => cells.dial(cellAddress(target), guestClientPort, signal),
        accessToken: credentials.guestToken(target.uid),
        user: user ?? containerUser,
      }),
    async acceptsConnections(target, port, signal) {
      try {
        const stream = await cells.dial(cellAddress(target), port, signal);
        stream.on("error", () => undefined).destroy();
        return true;
      } catch (error) {
        const { code } = RametError.from(error);
        if (code === "Unavailable" || code === "Timeout") return false;
        throw error;
      }
    },
  };
}

/** The slowest boot, restore or stop in measurements took seconds. */
const startMilliseconds = 60_000;

export function startDeadline(clock: Clock, what: string): Deadline {
  return { clock, milliseconds: startMilliseconds, what, hint: startHint };
}

const startHint =
  "Check with kubectl describe pod and kubectl logs what the node lacks; then delete the Sandbox and create another one";

export function cellAddress({ podIp, uid, cellKey }: SandboxRef): CellAddress {
  return { ip: podIp, sandboxUid: uid, cellKey };
}

/** An ended Pod keeps its address in its status, and another Pod may have it. */
function hasAddress({ metadata, status }: Pod, { podUid, podIp }: SandboxRef): boolean {
  const isLive = status?.phase !== "Succeeded" && status?.phase !== "Failed";
  return metadata.uid === podUid && status?.podIP === podIp && isLive;
}

export function startOf({ generation, memory, engine, capacity, writableLayer }: CellState): Omit<Started, "phases"> {
  return defined({ generation, memory, engine, capacity, writableLayer });
}

/** The identity of a sandbox. Deterministic: a repeated boot gives the same one, and two sandboxes never share one. */
export function identityOf(
  { namespace, name, uid }: SandboxRef,
  environment: Record<string, string>,
  credentials: Pick<CellCredentials, "guestToken">,
): Identity {
  return {
    sandboxId: `${namespace}--${name}`,
    hostname: name,
    accessToken: credentials.guestToken(uid),
    environment: withClientSandboxId(environment, uid),
  };
}
