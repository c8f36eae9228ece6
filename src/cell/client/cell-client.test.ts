import { once } from "node:events";
import { createServer, type RequestListener, type Server } from "node:http";
import { expect, it, onTestFinished } from "vitest";
import { ManualClock } from "../../../test/setup/manual-clock.ts";
import { cellPort } from "../../api/cell/cell-api.ts";
import { CellClient } from "./cell-client.ts";
import { cellKeyFromPem, newCellKeyPem } from "./cell-token.ts";

/** A separate address, because the port is fixed. */
const ip = "127.3.2.1";

it("keeps the first bytes of a program that arrive together with the response", async () => {
  const server = createServer().on("upgrade", (_, socket) => {
    socket.write("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: tcp\r\n\r\n220 mail\r\n");
  });
  server.listen(cellPort, ip);
  await once(server, "listening");
  const client = new CellClient(cellKeyFromPem(newCellKeyPem()));
  try {
    const stream = await client.dial({ ip, sandboxUid: "uid" }, 25);
    const [first] = (await once(stream, "data")) as [Buffer];
    expect(first.toString()).toBe("220 mail\r\n");
    stream.destroy();
  } finally {
    client.close();
    server.closeAllConnections();
    server.close();
  }
});

const part = "[".repeat(65_536);
const cell = { ip, sandboxUid: "uid" };

it.each([200, 500])("stops reading an answer with status %i that does not end", async (status) => {
  const client = await clientOf((_, response) => {
    response.writeHead(status);
    const send = (): void => {
      while (!response.destroyed && response.write(part));
    };
    response.on("drain", send);
    send();
  });
  await expect(client.state(cell)).rejects.toMatchObject({ code: "Internal" });
});

it("stops reading events in a line that does not end", async () => {
  const client = await clientOf((_, response) => response.write(part.repeat(2)));
  const events = client.events(cell, new AbortController().signal);
  await expect(events.next()).rejects.toMatchObject({ code: "Internal" });
});

it("times out if an answer does not end", async () => {
  const clock = new ManualClock(new Date());
  const client = await clientOf((_, response) => response.writeHead(200).write("{"), clock);
  // It has no time limit until the response starts.
  const restored = client.untilLoaded(cell);
  restored.catch(() => undefined);
  await expect.poll(() => clock.waits).toEqual([10_000]);
  clock.advance(10_000);
  await expect(restored).rejects.toMatchObject({ code: "Timeout", retryable: true });
});

it("reports a cell that responds with an upgrade as unreachable", async () => {
  const client = await clientOf((_, response) => {
    response.socket?.end("HTTP/1.1 101 x\r\nConnection: Upgrade\r\nUpgrade: tcp\r\n\r\n");
  });
  await expect(client.untilLoaded(cell)).rejects.toMatchObject({ code: "Unavailable" });
});

/** Returns a client, and lets this listener stand in for the cell. */
async function clientOf(listener: RequestListener, clock?: ManualClock): Promise<CellClient> {
  const server: Server = createServer(listener);
  server.listen(cellPort, ip);
  await once(server, "listening");
  const client = new CellClient(cellKeyFromPem(newCellKeyPem()), clock);
  onTestFinished(async () => {
    client.close();
    server.closeAllConnections();
    server.close();
    await once(server, "close");
  });
  return client;
}
