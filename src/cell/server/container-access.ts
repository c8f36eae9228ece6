import { once } from "node:events";
import { createServer, request as httpRequest, type IncomingMessage } from "node:http";
import { join } from "node:path";
import * as z from "zod";
import { guestClientPort } from "../../api/wire/cell-api.ts";
import { defined } from "../../base/defined.ts";
import { RametError, textOfError } from "../../base/errors.ts";
import { containerUser, GuestClient } from "../client/guest-client.ts";
import { guestLimits, textOf } from "../client/guest-http.ts";
import { dialLink, linkSocket } from "../network/link-lines.ts";

/** The token with which a process in the cell's container calls the guest. Before the guest has an identity it requires none. */
const Access = z.object({ accessToken: z.string().optional() });
type Access = z.infer<typeof Access>;

/**
 * Serves the sandbox's token to processes of the cell's user in the cell's container: the kubelet starts exec probes and hooks
 * there, and they are run in the sandbox.
 */
export async function serveAccess(directory: string, cell: Access): Promise<void> {
  const server = createServer((_, response) => {
    const { accessToken } = cell;
    response.end(JSON.stringify({ accessToken } satisfies Access));
  });
  server.unref().listen(accessSocket(directory));
  await once(server, "listening");
}

/**
 * Returns a client of the guest for another process in the cell's container. It also works while the sandbox's gate is closed.
 * @throws RametError `SandboxNotReady` if no cell or no sandbox runs
 */
export async function guestInContainer(directory: string, signal: AbortSignal): Promise<GuestClient> {
  const { accessToken } = await requestAccess(accessSocket(directory), signal);
  return new GuestClient({
    dial: () => dialLink(linkSocket(directory), guestClientPort, { control: true, signal }),
    ...defined({ accessToken }),
    user: containerUser,
  });
}

async function requestAccess(socketPath: string, signal: AbortSignal): Promise<Access> {
  try {
    // The same path can lead to another cell later: the node's paths begin with a file descriptor. A kept connection would lead
    // to the earlier one, and its token to the wrong guest.
    const call = httpRequest({ socketPath, path: "/", signal, agent: false }).end();
    const [response] = (await once(call, "response")) as [IncomingMessage];
    return Access.parse(JSON.parse(await textOf(response, guestLimits.control)));
  } catch (error) {
    signal.throwIfAborted();
    throw new RametError("SandboxNotReady", `cannot reach the cell in this container: ${whyUnreachable(error)}`, {
      cause: error,
    });
  }
}

function whyUnreachable(error: unknown): string {
  const isMissing = error instanceof Error && "code" in error && error.code === "ENOENT";
  return isMissing ? "it accepts no commands yet" : textOfError(error);
}

function accessSocket(directory: string): string {
  return join(directory, "access.sock");
}
