import { once } from "node:events";
import { createServer, type Server, type Socket } from "node:net";
import { afterAll, beforeAll, expect, it } from "vitest";
import { cellPort, guestClientPort } from "../api/wire/cell-api.ts";
import { cellProver } from "../cell/client/cell-proof.ts";
import { CellClient } from "../cell/client/cell-client.ts";
import { cellKeyFromPem, newCellKeyPem } from "../cell/client/cell-token.ts";
import { podGuests } from "./acs/acs-clone.ts";
import { cellRuntime } from "./cell-runtime.ts";

/** A separate address, because the ports are fixed. */
const podIp = "127.3.2.9";
const target = { namespace: "a", name: "b", uid: "uid", podIp, podUid: "pod", claims: [] };
const connected: Socket[] = [];
/** Stand in for a cell and a guest that accept connections and then do not answer. */
const servers: Server[] = [];

beforeAll(async () => {
  for (const port of [cellPort, guestClientPort]) {
    const server = createServer((socket) => {
      connected.push(socket.on("error", () => undefined).resume());
      server.emit("accepted");
    });
    await once(server.listen(port, podIp), "listening");
    servers.push(server);
  }
});
afterAll(() => {
  for (const socket of connected) socket.destroy();
  for (const server of servers) server.close();
});

it.each([
  ["a cell that does not answer", cellPort],
  ["a guest of another controller that does not answer", guestClientPort],
])(
  "closes the connection to %s when the request ends",
  async (_, port) => {
    const cells = new CellClient(cellKeyFromPem(newCellKeyPem()));
    const cellKey = cellProver("uid").publicKey;
    const runtime = cellRuntime({
      cells,
      credentials: { guestToken: () => "secret" },
      findPod: () => Promise.resolve(undefined),
    });
    const guests = port === cellPort ? runtime : podGuests();
    const ended = new AbortController();
    const accepted = once(servers[port === cellPort ? 0 : 1]!, "accepted");
    const read = guests.guest({ ...target, cellKey }).readFile("/etc/hostname", ended.signal);
    const outcome = expect(read).rejects.toMatchObject({ code: "Canceled" });
    await accepted;
    ended.abort();
    await outcome;
    const socket = connected.at(-1)!;
    if (!socket.destroyed) await once(socket, "close");
    cells.close();
    // A dial ends after 10 s in any case.
  },
  5_000,
);
