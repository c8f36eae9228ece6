import { once } from "node:events";
import { createServer } from "node:http";
import { type AddressInfo, connect, type Socket } from "node:net";
import { expect, it, onTestFinished } from "vitest";
import { ManualClock } from "../../test/setup/manual-clock.ts";
import { closingResponse } from "./http.ts";

/** Sends the start of a body to a server that refuses it, and returns when it has the whole response. */
async function refused(clock: ManualClock): Promise<{ client: Socket; served: Socket }> {
  const server = createServer({ ServerResponse: closingResponse(clock) }, (_, response) => {
    response.writeHead(401).end("no");
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const connected = once(server, "connection") as Promise<[Socket]>;
  const client = connect({ port: (server.address() as AddressInfo).port, host: "127.0.0.1", allowHalfOpen: true });
  onTestFinished(() => {
    client.destroy();
    server.close();
    server.closeAllConnections();
  });
  client.on("error", () => undefined).resume();
  client.write("PUT / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000000\r\n\r\na");
  await once(client, "end");
  expect(clock.waits).toEqual([5_000]);
  const [served] = await connected;
  return { client, served };
}

it("closes the connection of a refused client that sends nothing for 5 s", async () => {
  const clock = new ManualClock();
  const { served } = await refused(clock);
  clock.advance(4_999);
  expect(served.destroyed).toBe(false);
  clock.advance(1);
  expect([served.destroyed, clock.waits]).toEqual([true, []]);
});

it("reads what a refused client sends for 30 s", async () => {
  const clock = new ManualClock();
  const { client, served } = await refused(clock);
  for (let seconds = 5; seconds <= 30; seconds += 5) {
    const { bytesRead } = served;
    client.write("a");
    await expect.poll(() => served.bytesRead).toBeGreaterThan(bytesRead);
    expect(served.destroyed).toBe(false);
    clock.advance(5_000);
  }
  expect([served.destroyed, clock.waits]).toEqual([true, []]);
});
