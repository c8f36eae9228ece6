import { once } from "node:events";
import { mkdtemp, rm, symlink } from "node:fs/promises";
import { createServer as createHttpServer } from "node:http";
import { createServer, type Server, type Socket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, expect, it } from "vitest";
import { linkSocket } from "../network/link-lines.ts";
import { guestInContainer, serveAccess } from "./container-access.ts";

const directories: string[] = [];
const links: Server[] = [];
afterEach(async () => {
  for (const link of links.splice(0)) link.close();
  for (const directory of directories.splice(0)) await rm(directory, { recursive: true });
});

/** A cell's directory with a stand-in for link and guest, which records the tokens that it gets. */
async function cellDirectory(accessToken: string): Promise<{ directory: string; seen: unknown[] }> {
  const directory = await mkdtemp(join(tmpdir(), "access-"));
  directories.push(directory);
  await serveAccess(directory, { accessToken });
  const seen: unknown[] = [];
  const guest = createHttpServer((request, response) => {
    seen.push(request.headers["x-access-token"]);
    response.setHeader("content-type", "application/json").end("{}");
  });
  const link = createServer((socket: Socket) => {
    socket.once("data", () => {
      socket.write("{}\n");
      guest.emit("connection", socket);
    });
  });
  links.push(link.listen(linkSocket(directory)));
  await once(link, "listening");
  return { directory, seen };
}

it("sends a guest its own token, also if the same path led to another cell before", async () => {
  const cells = [await cellDirectory("first"), await cellDirectory("second")];
  const path = join(directories[0]!, "current");
  for (const { directory } of cells) {
    await rm(path, { force: true });
    await symlink(directory, path);
    const guest = await guestInContainer(path, AbortSignal.timeout(5_000));
    await guest.listProcesses();
  }
  expect(cells.map(({ seen }) => seen)).toEqual([["first"], ["second"]]);
});
