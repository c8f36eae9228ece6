import { once } from "node:events";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, it } from "vitest";
import { memoryIo } from "../../../test/setup/memory-io.ts";
import { runProgram } from "../program.ts";

it("ends quietly when the user interrupts --follow", async () => {
  // A stand-in for the API server and the gateway. It does not prove what a gateway sends, only that the log never ends.
  const server = createServer(({ url }, response) => {
    if (url?.startsWith("/logs") === true) response.write("a line\n");
    else response.writeHead(403, { "content-type": "application/json" }).end('{"kind":"Status","code":403}');
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const address = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const directory = await mkdtemp(join(tmpdir(), "ramet-logs-"));
  try {
    const kubeconfig = join(directory, "config");
    await writeFile(kubeconfig, JSON.stringify(kubeconfigOf(address)));
    const tokenFile = join(directory, "token");
    await writeFile(tokenFile, "a-token");
    const io = memoryIo();
    const flags = ["--kubeconfig", kubeconfig, "--gateway", address, "--token-file", tokenFile];
    const ended = runProgram(io, ["sandbox", "logs", "a", "--follow", ...flags]);
    await expect.poll(() => io.written("stdout") + io.written("stderr")).toBe("a line\n");
    io.interrupt();
    expect(await ended).toBe(130);
    expect(io.written("stderr")).toBe("");
  } finally {
    server.closeAllConnections();
    server.close();
    await rm(directory, { recursive: true });
  }
});

function kubeconfigOf(server: string) {
  return {
    apiVersion: "v1",
    kind: "Config",
    clusters: [{ name: "c", cluster: { server } }],
    users: [{ name: "u", user: { token: "a-token" } }],
    contexts: [{ name: "x", context: { cluster: "c", user: "u", namespace: "t" } }],
    "current-context": "x",
  };
}
