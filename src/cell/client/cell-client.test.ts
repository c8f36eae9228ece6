import { once } from "node:events";
import { createServer } from "node:http";
import { expect, it } from "vitest";
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
