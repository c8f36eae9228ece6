import { once } from "node:events";
import { createServer } from "node:net";
import { afterAll, beforeAll, beforeEach, expect, it } from "vitest";
import { cellPort } from "../api/wire/cell-api.ts";
import { Pod } from "../api/schema/pod.ts";
import { CellClient } from "../cell/client/cell-client.ts";
import { cellProver } from "../cell/client/cell-proof.ts";
import { cellKeyFromPem, newCellKeyPem } from "../cell/client/cell-token.ts";
import { cellRuntime } from "./cell-runtime.ts";

/** A separate address, because the port is fixed. */
const podIp = "127.3.2.2";
const target = { namespace: "a", name: "b", uid: "uid", podIp, podUid: "pod", claims: [] };

/** A process in the Pod that has the address now. It proves to have a key, as anybody can. */
const other = cellProver("uid");
const received: string[] = [];
const server = createServer((socket) => {
  socket
    .on("error", () => undefined)
    .on("data", (chunk: Buffer) => {
      received.push(chunk.toString());
      const proof = other.prove(/^ramet-nonce: (\S+)/im.exec(chunk.toString())?.[1]);
      socket.write(`HTTP/1.1 204 x\r\nramet-cell-key: ${other.publicKey}\r\nramet-cell-proof: ${proof}\r\n\r\n`);
    });
});
const cells = new CellClient(cellKeyFromPem(newCellKeyPem()));

beforeAll(async () => {
  await once(server.listen(cellPort, podIp), "listening");
});
beforeEach(() => received.splice(0));
afterAll(() => {
  cells.close();
  server.close();
});

function runtimeWith(pod: { uid: string; podIP?: string; phase?: string } | undefined) {
  const { uid, ...status } = pod ?? { uid: "" };
  const metadata = { namespace: "a", name: "b", uid, resourceVersion: "1", creationTimestamp: "2026-01-01T00:00:00Z" };
  const found = pod && Pod.parse({ metadata, spec: { containers: [{ name: "main", image: "x" }] }, status });
  const credentials = { guestToken: () => "secret" };
  return cellRuntime({ cells, credentials, findPod: () => Promise.resolve(found) });
}

it.each([
  ["no longer exists", undefined],
  ["has ended", { uid: "pod", podIP: podIp, phase: "Failed" }],
  ["was replaced by one with another UID", { uid: "new", podIP: podIp, phase: "Running" }],
  ["has another address", { uid: "pod", podIP: "127.3.2.3", phase: "Running" }],
])("asks the address for a proof only if the Pod %s", async (_, pod) => {
  await expect(runtimeWith(pod).identified(target)).rejects.toMatchObject({ code: "Unavailable", retryable: true });
  expect(received).toEqual([expect.stringMatching(/^GET \/v1\/proof /)]);
});

it("learns the key of the cell of a Pod that has its address, and keeps a key that is known", async () => {
  const runtime = runtimeWith({ uid: "pod", podIP: podIp, phase: "Running" });
  expect(await runtime.identified(target)).toEqual({ ...target, cellKey: other.publicKey });
  received.splice(0);
  const known = { ...target, cellKey: cellProver("uid").publicKey };
  expect(await runtime.identified(known)).toEqual(known);
  expect(received).toEqual([]);
  await expect(runtime.adopt(known, { SECRET: "x" })).rejects.toMatchObject({ code: "CellNotProven" });
  expect(received).toEqual([expect.stringMatching(/^GET \/v1\/proof /)]);
});
