import { once } from "node:events";
import { createServer } from "node:http2";
import type { AddressInfo } from "node:net";
import { afterAll, beforeAll, expect, it } from "vitest";
import { probeGrpc } from "./probe-grpc.ts";

/** Answers as a gRPC server does: by the name of the service in the request. */
const server = createServer();
let port = 0;
beforeAll(async () => {
  server.on("sessionError", () => undefined);
  server.on("stream", (stream, headers) => {
    const chunks: Buffer[] = [];
    stream.on("error", () => undefined).on("data", (chunk: Buffer) => chunks.push(chunk));
    stream.on("end", () => {
      const service = Buffer.concat(chunks).subarray(7).toString();
      const isCheck = headers[":path"] === "/grpc.health.v1.Health/Check";
      if (service === "never") return;
      if (!isCheck || service === "unknown") {
        stream.respond({ ":status": 200, "content-type": "application/grpc", "grpc-status": "5" }, { endStream: true });
        return;
      }
      stream.respond({ ":status": 200, "content-type": "application/grpc" }, { waitForTrailers: true });
      stream.on("wantTrailers", () => {
        stream.sendTrailers({ "grpc-status": "0" });
      });
      const long = Buffer.concat([Buffer.from([0, 0, 0, 8, 0]), Buffer.alloc(2048)]);
      stream.end(service === "long" ? long : Buffer.from([0, 0, 0, 0, 2, 0x08, service === "down" ? 2 : 1]));
    });
  });
  await once(server.listen(0, "127.0.0.1"), "listening");
  ({ port } = server.address() as AddressInfo);
});
afterAll(() => {
  server.close();
});

const probe = (service: string, signal = AbortSignal.timeout(5_000)) =>
  probeGrpc({ ip: "127.0.0.1", port, service, signal });

it("succeeds if the service is serving, and else reports its status", async () => {
  expect(await probe("")).toBeUndefined();
  expect(await probe("up")).toBeUndefined();
  expect(await probe("down")).toBe("the service is NOT_SERVING");
  expect(await probe("unknown")).toBe("gRPC status 5");
  expect(await probe("long")).toBe("the response is too long");
});

it("fails if the server does not answer in time, or does not exist", async () => {
  await expect(probe("never", AbortSignal.timeout(50))).rejects.toThrow("no response in time");
  await expect(
    probeGrpc({ ip: "127.0.0.1", port: 1, service: "", signal: AbortSignal.timeout(5_000) }),
  ).rejects.toThrow("ECONNREFUSED");
});
