import { guestClientPort } from "../api/cell/cell-api.ts";
import { RametError } from "../base/errors.ts";
import type { CellClient } from "../cell/client/cell-client.ts";
import { GuestClient } from "../cell/client/guest-client.ts";
import type { SandboxTarget } from "./backend.ts";
import type { CellCredentials } from "./cell-credentials.ts";

/** Commands and files of a sandbox. */
export type SandboxGuest = GuestClient;

/** What a controller may do inside a sandbox that runs. */
export interface SandboxAccess {
  /** @param user whom commands and files are for; absent: the entrypoint's user */
  guest(target: SandboxTarget, user?: string): SandboxGuest;
  /**
   * Whether a TCP port of the sandbox takes connections from outside it.
   * @throws RametError `Canceled`, and whatever is wrong with the call itself
   */
  takesConnections(target: SandboxTarget, port: number, signal?: AbortSignal): Promise<boolean>;
}

export function sandboxAccess(cells: CellClient, credentials: CellCredentials): SandboxAccess {
  return {
    guest: ({ ip, sandboxUid }, user) =>
      new GuestClient({
        dial: () => cells.dial({ ip, sandboxUid }, guestClientPort),
        accessToken: credentials.guestToken(sandboxUid),
        ...(user === undefined ? {} : { user }),
      }),
    async takesConnections({ ip, sandboxUid }, port, signal) {
      try {
        const stream = await cells.dial({ ip, sandboxUid }, port, signal);
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
