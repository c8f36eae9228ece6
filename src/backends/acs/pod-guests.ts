import { connect, type Socket } from "node:net";
import { guestClientPort } from "../../api/wire/cell-api.ts";
import { type Clock, systemClock } from "../../base/clock.ts";
import { defined } from "../../base/defined.ts";
import { RametError } from "../../base/errors.ts";
import { within } from "../../base/within.ts";
import { GuestClient } from "../../cell/client/guest-client.ts";
import type { SandboxRef, SandboxRuntime } from "../runtime.ts";

/**
 * Enters sandboxes that another controller runs: envd listens on port 49983 of the Pod. The address is that of the Sandbox's
 * status. The annotation `runtime-url` is not used, because everyone who can change a Sandbox could name any address there.
 */
export function podGuests(clock: Clock = systemClock): Pick<SandboxRuntime, "guest" | "acceptsConnections"> {
  return {
    guest: (target, user) =>
      new GuestClient({
        dial: (signal) => dial(target, guestClientPort, clock, signal),
        ...defined({ user }),
      }),
    async acceptsConnections(target, port, signal) {
      try {
        (await dial(target, port, clock, signal)).destroy();
        return true;
      } catch (error) {
        const { code } = RametError.from(error);
        if (code === "Unavailable" || code === "Timeout") return false;
        throw error;
      }
    },
  };
}

function dial({ name, podIp }: SandboxRef, port: number, clock: Clock, signal?: AbortSignal): Promise<Socket> {
  const what = `Connecting to port ${port} of the sandbox ${name}`;
  const unreachable = (why: string): RametError =>
    new RametError("Unavailable", `${what} failed: ${why}`, {
      retryable: true,
      hint: "Check with kubectl get sandbox -o yaml that the Pod has an address, and that its template starts envd",
    });
  return within({ clock, milliseconds: dialMilliseconds, what, retryable: true, signal }, (timeout) => {
    const { promise, resolve, reject } = Promise.withResolvers<Socket>();
    if (podIp === "") return Promise.reject(unreachable("its Pod has no address"));
    const socket = connect({ host: podIp, port, signal: timeout });
    socket.once("error", (error) => {
      reject(unreachable(error.message));
    });
    socket.once("connect", () => {
      resolve(socket);
    });
    return promise;
  });
}

const dialMilliseconds = 5_000;
