import { createHash } from "node:crypto";
import { once } from "node:events";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { afterEach, expect, it } from "vitest";
import { ManualClock } from "../../test/setup/manual-clock.ts";
import { type Clock, systemClock } from "../base/clock.ts";
import { lookUpImage } from "./look-up-image.ts";
import { RegistryTransport } from "./registry-transport.ts";

/** Registries that answer what no registry should. `test/contract/registry` asks a real one. */
const closing: (() => Promise<unknown>)[] = [];
afterEach(async () => {
  for (const close of closing.splice(0)) await close();
});

type Answer = (request: IncomingMessage, response: ServerResponse) => void;

async function registry(answer: Answer): Promise<string> {
  const server = createServer(answer);
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  closing.push(() => {
    server.closeAllConnections();
    return new Promise((resolve) => server.close(resolve));
  });
  return `127.0.0.1:${(server.address() as AddressInfo).port}`;
}

function lookUp(host: string, clock: Clock = systemClock, more: string[] = []) {
  const transport = new RegistryTransport({ insecureRegistries: [host, ...more] });
  closing.push(() => transport.close());
  return lookUpImage({ name: `${host}/app:1`, preferred: "amd64", keyring: [] }, { transport, clock });
}

const digestOf = (text: string): string => `sha256:${createHash("sha256").update(text).digest("hex")}`;
const manifestOf = (config: string): string => JSON.stringify({ config: { digest: digestOf(config) } });

/** A registry of one image with this configuration. */
function serving(config: string, manifest = manifestOf(config)): Answer {
  return (request, response) => response.end(request.url?.includes("/blobs/") === true ? config : manifest);
}

const configOf = (config: object, more: object = {}): string =>
  JSON.stringify({ architecture: "amd64", os: "linux", config, ...more });

it("reads an image of a registry that names no media types and has null for empty fields", async () => {
  const host = await registry(serving(configOf({ Entrypoint: null, Cmd: ["run"], Env: null, User: "" })));
  const { config } = await lookUp(host);
  expect(config).toMatchObject({ entrypoint: [], cmd: ["run"], env: [], workingDir: "", architecture: "amd64" });
  expect(config.userName).toBeUndefined();
});

it.each([
  ["no JSON", "<html>", "its answer is not JSON"],
  ["no manifest", "{}", "its manifest is malformed: config"],
  ["another version", JSON.stringify({ schemaVersion: 1, fsLayers: [] }), "its manifest is malformed"],
  ["a digest of another kind", JSON.stringify({ config: { digest: "../../secrets" } }), "config.digest"],
  ["an empty index", JSON.stringify({ manifests: [] }), "its index is malformed"],
  [
    "a huge index",
    JSON.stringify({ manifests: Array(2_000).fill({ digest: digestOf("") }) }),
    "its index is malformed",
  ],
])("refuses a manifest that is %s", async (_, manifest, message) => {
  const host = await registry(serving("{}", manifest));
  await expect(lookUp(host)).rejects.toMatchObject({
    code: "InvalidArgument",
    message: expect.stringContaining(message) as string,
  });
});

it.each([
  ["is malformed", configOf({ Entrypoint: "sh" }), "its configuration is malformed"],
  ["is for another system", configOf({}, { os: "windows" }), "the image is for windows/amd64"],
  [
    "has very long variables",
    configOf({ Env: [`A=${"x".repeat(70_000)}`] }),
    "its configuration has more than 65536 bytes",
  ],
])("refuses a configuration that %s", async (_, config, message) => {
  const host = await registry(serving(config));
  await expect(lookUp(host)).rejects.toThrow(message);
});

it("refuses content that differs from its digest", async () => {
  const host = await registry(serving(configOf({ Cmd: ["evil"] }), manifestOf(configOf({ Cmd: ["good"] }))));
  await expect(lookUp(host)).rejects.toThrow("has another digest");
});

it("follows neither indexes nor redirects that lead to themselves", async () => {
  const nested = JSON.stringify({ manifests: [{ digest: digestOf("nested") }] });
  const inner = JSON.stringify({ manifests: [{ digest: digestOf(nested) }] });
  const known = new Map([nested, inner].map((text) => [digestOf(text), text]));
  const looping = await registry((request, response) => {
    response.end(known.get(request.url?.split("/").at(-1) ?? "") ?? inner);
  });
  await expect(lookUp(looping)).rejects.toMatchObject({ code: "InvalidArgument" });
  const redirecting = await registry((request, response) => {
    response.writeHead(307, { location: request.url }).end();
  });
  await expect(lookUp(redirecting)).rejects.toThrow("it redirects more than 5 times");
});

it("does not follow a registry to a server that no administrator has named, and sends its token nowhere else", async () => {
  const asked: (string | undefined)[] = [];
  const inside = await registry((request, response) => {
    asked.push(request.headers.authorization);
    response.end("{}");
  });
  const outside = await registry((_, response) => {
    response.writeHead(307, { location: `http://${inside}/latest/meta-data` }).end();
  });
  await expect(lookUp(outside)).rejects.toMatchObject({ code: "Forbidden" });
  const realm = await registry((_, response) => {
    response.writeHead(401, { "www-authenticate": `Bearer realm="http://${inside}/token"` }).end();
  });
  await expect(lookUp(realm)).rejects.toMatchObject({ code: "Forbidden" });
  expect(asked).toEqual([]);

  const blobs = await registry((request, response) => {
    if (request.url?.startsWith("/token") === true) response.end(JSON.stringify({ token: "secret" }));
    else if (request.headers.authorization === undefined) {
      const challenge = `Bearer realm="http://${request.headers.host ?? ""}/token"`;
      response.writeHead(401, { "www-authenticate": challenge }).end();
    } else response.writeHead(307, { location: `http://${inside}/stored` }).end();
  });
  await expect(lookUp(blobs, systemClock, [inside])).rejects.toMatchObject({ code: "InvalidArgument" });
  expect(asked).toEqual([undefined]);
});

it("stops reading an answer that does not end", async () => {
  const host = await registry((_, response) => {
    const write = (): void => {
      while (!response.destroyed && response.write("x".repeat(65_536)));
      if (!response.destroyed) response.once("drain", write);
    };
    write();
  });
  await expect(lookUp(host)).rejects.toThrow("its answer is larger than 4194304 bytes");
});

it("ends after ten seconds although the registry is silent, or sends a byte from time to time", async () => {
  for (const answer of [(() => undefined) as Answer, ((_, response) => response.write("{")) as Answer]) {
    const asked = Promise.withResolvers<undefined>();
    const host = await registry((request, response) => {
      answer(request, response);
      asked.resolve(undefined);
    });
    const clock = new ManualClock();
    const looking = expect(lookUp(host, clock)).rejects.toMatchObject({
      code: "Timeout",
      message: expect.stringContaining("it timed out after 10 s") as string,
    });
    await asked.promise;
    clock.advance(10_000);
    await looking;
  }
});

it("repeats no control characters and no endless words of a registry", async () => {
  const message = `\u001b[31m${"word ".repeat(1_000)}`;
  const host = await registry((_, response) => {
    response.writeHead(500).end(JSON.stringify({ errors: [{ code: "BROKEN", message }] }));
  });
  const error = await lookUp(host).catch((thrown: unknown) => thrown as Error);
  expect(error).toMatchObject({ code: "Unavailable", retryable: true });
  expect((error as Error).message).toContain("status 500: BROKEN: ?[31mword");
  expect((error as Error).message.length).toBeLessThan(400);
});
