import { type CellState, guestClientPort, type Identity } from "../api/cell/cell-api.ts";
import { type Clock, systemClock } from "../base/clock.ts";
import { RametError } from "../base/errors.ts";
import { type Deadline, within } from "../base/within.ts";
import type { CellAddress, CellClient } from "../cell/client/cell-client.ts";
import { GuestClient } from "../cell/client/guest-client.ts";
import type { CellCredentials } from "./cell-credentials.ts";
import type { SandboxRef, SandboxRuntime, Started } from "./runtime.ts";

export interface CellRuntimeOptions {
  cells: CellClient;
  credentials: Pick<CellCredentials, "guestToken">;
  clock?: Clock;
}

/** Runs each sandbox in the cell of its Pod. */
export function cellRuntime({ cells, credentials, clock = systemClock }: CellRuntimeOptions): SandboxRuntime {
  return {
    async boot(target, environment) {
      const identity = identityOf(target, environment, credentials);
      const boot = (signal: AbortSignal) => cells.boot(cellAddress(target), { identity }, signal);
      return { ...startOf(await within(startDeadline(clock, "The start of the sandbox"), boot)), phases: {} };
    },
    async adopt(target, environment) {
      const identity = identityOf(target, environment, credentials);
      const adopt = (signal: AbortSignal) => cells.identity(cellAddress(target), { identity }, signal);
      const { generation } = await within(startDeadline(clock, "The handover of an identity"), adopt);
      return { generation };
    },
    async setEgress(target, policy) {
      await cells.setEgress(cellAddress(target), { policy });
    },
    async stop(target, reason) {
      const stop = (signal: AbortSignal) => cells.stop(cellAddress(target), reason, signal);
      await within(startDeadline(clock, "Stopping the sandbox"), stop);
    },
    guest: (target, user) =>
      new GuestClient({
        dial: () => cells.dial(cellAddress(target), guestClientPort),
        accessToken: credentials.guestToken(target.uid),
        ...(user === undefined ? {} : { user }),
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

export function cellAddress({ podIp, uid }: SandboxRef): CellAddress {
  return { ip: podIp, sandboxUid: uid };
}

export function startOf({ generation, memory }: CellState): Pick<Started, "generation" | "memory"> {
  return { generation, ...(memory !== undefined && { memory }) };
}

/** The identity of a sandbox. Deterministic: a repeated boot gives the same one, and two sandboxes never share one. */
export function identityOf(
  { namespace, name, uid }: SandboxRef,
  environment: Record<string, string>,
  credentials: Pick<CellCredentials, "guestToken">,
): Identity {
  return { sandboxId: `${namespace}--${name}`, hostname: name, accessToken: credentials.guestToken(uid), environment };
}
