import { once } from "node:events";
import { createServer, request as httpRequest, type IncomingMessage } from "node:http";
import { join } from "node:path";
import * as z from "zod";
import { guestClientPort } from "../../api/cell/cell-api.ts";
import { RametError } from "../../base/errors.ts";
import { GuestClient } from "../client/guest-client.ts";
import { textOf } from "../client/guest-http.ts";
import { dialLink, linkSocket } from "../network/link-dial.ts";

/** What lets a process of the cell's own container into the sandbox. Before the guest has an identity it asks for no token. */
const Access = z.object({ accessToken: z.string().optional() });
type Access = z.infer<typeof Access>;

/**
 * Tells the sandbox's token to whoever is the cell's user in the cell's container: commands that a kubelet starts there
 * for probes and hooks, and which are meant for the sandbox.
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
 * A client of the guest for a process that the cell's container has been given beside the cell. It passes while the
 * sandbox's gate is shut.
 * @throws RametError `SandboxNotReady` while there is no cell, or no sandbox in it
 */
export async function guestBeside(directory: string, signal: AbortSignal): Promise<GuestClient> {
  const { accessToken } = await askAccess(accessSocket(directory), signal);
  return new GuestClient({
    dial: () => dialLink(linkSocket(directory), guestClientPort, { control: true, signal }),
    ...(accessToken !== undefined && { accessToken }),
  });
}

async function askAccess(socketPath: string, signal: AbortSignal): Promise<Access> {
  try {
    const call = httpRequest({ socketPath, path: "/", signal }).end();
    const [response] = (await once(call, "response")) as [IncomingMessage];
    return Access.parse(JSON.parse(await textOf(response)));
  } catch (error) {
    signal.throwIfAborted();
    const why = error instanceof Error ? error.message : String(error);
    throw new RametError("SandboxNotReady", `No cell answers in this container: ${why}`, { cause: error });
  }
}

function accessSocket(directory: string): string {
  return join(directory, "access.sock");
}
