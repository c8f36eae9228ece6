import { once } from "node:events";
import { createServer, type AddressInfo, type Socket } from "node:net";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { eventually } from "../../test/contract/kube/eventually.ts";
import { ManualClock } from "../../test/setup/manual-clock.ts";
import { StandInServer } from "../../test/contract/kube/stand-in-server.ts";
import type { ErrorCode } from "../base/error-codes.ts";
import { systemClock } from "../base/clock.ts";
import { explicitConnection } from "./connection.ts";
import { KubeClient, type KubeClientOptions, type RequestRecord } from "./kube-client.ts";
import { coreResources } from "./resource-ref.ts";
import { apiStatusOf, isExpired } from "./status-error.ts";

const server = new StandInServer(coreResources.configMaps);
const at = { namespace: "default", name: "a" };
const manifest = { apiVersion: "v1", kind: "ConfigMap", metadata: at };
let clients: KubeClient[] = [];

function connect(options: KubeClientOptions = {}) {
  const client = new KubeClient(explicitConnection({ server: server.url, token: "secret" }), {
    random: () => 0,
    ...options,
  });
  clients.push(client);
  return client.resource(coreResources.configMaps);
}

beforeEach(() => server.start());
afterEach(async () => {
  await Promise.all(clients.map((client) => client.close()));
  clients = [];
  await server.stop();
});

describe("KubeClient", () => {
  it("creates, reads, patches and deletes", async () => {
    const maps = connect();
    await maps.create(manifest);
    await maps.mergePatch(at, { data: { x: "1" } });
    expect(await maps.get(at)).toMatchObject({ kind: "ConfigMap", data: { x: "1" } });
    expect(await maps.delete(at)).toBe(true);
    expect(await maps.delete(at)).toBe(false);
    expect(await maps.find(at)).toBeUndefined();
    expect(server.requests[0]?.headers.authorization).toBe("Bearer secret");
  });

  it("aborts a request that waits for a connection immediately", async () => {
    // Accepts connections and never responds, so that the TLS handshake does not complete.
    const silent = createServer().listen(0, "127.0.0.1");
    await once(silent, "listening");
    const { port } = silent.address() as AddressInfo;
    const client = new KubeClient(explicitConnection({ server: `https://127.0.0.1:${port}`, token: "secret" }));
    const over = new AbortController();
    const request = client.resource(coreResources.configMaps).get(at, { signal: over.signal });
    const sockets: Socket[] = [];
    silent.on("connection", (socket) => {
      sockets.push(socket);
      over.abort();
    });
    await expect(request).rejects.toMatchObject({ code: "Canceled" });
    await client.close();
    for (const socket of sockets) socket.destroy();
    silent.close();
    // Not only after the connection timeout of ten seconds.
  }, 5_000);

  it("reads a long list page by page and sets the kind of each object", async () => {
    for (let i = 0; i < 7; i++) server.put(`m${i}`);
    const before = server.count("list");
    const { items } = await connect().list({ pageSize: 3 });
    expect(items.map((item) => item.metadata.name)).toEqual(["m0", "m1", "m2", "m3", "m4", "m5", "m6"]);
    expect(items.every((item) => item.kind === "ConfigMap" && item.apiVersion === "v1")).toBe(true);
    expect(server.count("list") - before).toBe(3);
  });

  it("recovers from a 500 on the second page", async () => {
    for (let i = 0; i < 5; i++) server.put(`m${i}`);
    server.refuse({ when: ({ query }) => query.has("continue"), times: 1, httpStatus: 500 });
    expect((await connect().list({ pageSize: 3 })).items.length).toBeGreaterThanOrEqual(5);
  });

  const meanings: [number, string, ErrorCode, boolean][] = [
    [400, "BadRequest", "InvalidArgument", false],
    [401, "Unauthorized", "Unauthorized", false],
    [403, "Forbidden", "Forbidden", false],
    [404, "NotFound", "NotFound", false],
    [409, "AlreadyExists", "AlreadyExists", false],
    [409, "Conflict", "Conflict", false],
    [422, "Invalid", "InvalidArgument", false],
    [500, "InternalError", "Unavailable", true],
    [504, "Timeout", "Timeout", true],
  ];
  it.each(meanings)("maps %i %s to %s and keeps the server's message", async (httpStatus, reason, code, retryable) => {
    server.refuse({ times: 1, httpStatus, reason, message: "spec.x: not so" });
    const error: unknown = await connect()
      .create({ ...manifest, metadata: { name: "z" } })
      .catch((thrown: unknown) => thrown);
    expect(error).toMatchObject({ code, retryable, message: "create configmaps default failed: spec.x: not so" });
    expect(apiStatusOf(error)).toMatchObject({ httpStatus, reason });
  });

  it("reports that a continue token is too old", async () => {
    server.refuse({ times: 1, httpStatus: 410, reason: "Expired" });
    const error: unknown = await connect()
      .list()
      .catch((thrown: unknown) => thrown);
    expect(isExpired(error)).toBe(true);
  });

  it("waits for the Retry-After of a 429, also before it repeats a create", async () => {
    const clock = new ManualClock();
    server.refuse({ times: 1, httpStatus: 429, headers: { "retry-after": "7" } });
    const created = connect({ clock }).create({ ...manifest, metadata: { name: "waited" } });
    await eventually(() => clock.waits).toEqual([7050]);
    clock.advance(7049);
    expect(server.count("post")).toBe(server.requests.filter(({ verb }) => verb === "post").length);
    const before = server.count("post");
    clock.advance(1);
    expect((await created).metadata.name).toBe("waited");
    expect(server.count("post")).toBe(before + 1);
  });

  it("repeats a create that a starting server refused with a Retry-After", async () => {
    const clock = new ManualClock();
    const message = "the request has been made before all known HTTP paths have been installed, please try again";
    const starting = { httpStatus: 503, reason: "ServiceUnavailable", message, headers: { "retry-after": "5" } };
    server.refuse({ when: ({ verb }) => verb === "post", times: 1, ...starting });
    const created = connect({ clock }).create({ ...manifest, metadata: { name: "early" } });
    await eventually(() => clock.waits).toEqual([5050]);
    clock.advance(5050);
    expect((await created).metadata.name).toBe("early");
  });

  it("retries a server that sends Retry-After more often than an unreachable one, but not forever", async () => {
    const clock = { ...systemClock, schedule: (_: number, run: () => void) => systemClock.schedule(0, run) };
    const maps = connect({ clock });
    const starting = { httpStatus: 503, headers: { "retry-after": "5" } };
    server.put("there");
    server.refuse({ when: ({ verb }) => verb === "get", times: 9, ...starting });
    expect((await maps.get({ name: "there" })).metadata.name).toBe("there");
    server.refuse({ when: ({ verb }) => verb === "get", times: 10, ...starting });
    await expect(maps.get({ name: "there" })).rejects.toMatchObject({ code: "Unavailable", retryable: true });
  });

  it("repeats a get but not a create when its outcome is unknown", async () => {
    const clock = { ...systemClock, schedule: (_: number, run: () => void) => systemClock.schedule(0, run) };
    const maps = connect({ clock });
    server.refuse({ when: ({ verb }) => verb === "post", times: 1, httpStatus: 500 });
    const before = server.count("post");
    await expect(maps.create({ ...manifest, metadata: { name: "once" } })).rejects.toMatchObject({
      code: "Unavailable",
    });
    expect(server.count("post")).toBe(before + 1);
    server.put("there");
    server.refuse({ when: ({ verb }) => verb === "get", times: 4, httpStatus: 503 });
    expect((await maps.get({ name: "there" })).metadata.name).toBe("there");
    server.refuse({ when: ({ verb }) => verb === "get", times: 5, httpStatus: 503 });
    await expect(maps.get({ name: "there" })).rejects.toMatchObject({ code: "Unavailable", retryable: true });
  });

  it("reports what to do when the server is unreachable, and succeeds once it is back", async () => {
    server.put("there");
    const clock = new ManualClock();
    await server.stop();
    const got = connect({ clock }).get({ name: "there" });
    await eventually(() => clock.waits.length).toBe(1);
    await server.start();
    clock.advance(1_000);
    expect((await got).metadata.name).toBe("there");

    await server.stop();
    const hasty = { ...systemClock, schedule: (_: number, run: () => void) => systemClock.schedule(0, run) };
    await expect(connect({ clock: hasty }).get({ name: "there" })).rejects.toMatchObject({
      code: "Unavailable",
      hint: "Check that it runs and that the address is correct",
    });
    await server.start();
  });

  it("stops when the caller aborts, also between two attempts", async () => {
    const clock = new ManualClock();
    server.refuse({ times: 1, httpStatus: 503 });
    const abort = new AbortController();
    const got = connect({ clock }).get(at, { signal: abort.signal });
    await eventually(() => clock.waits.length).toBe(1);
    abort.abort();
    await expect(got).rejects.toMatchObject({ code: "Canceled" });
    expect(clock.waits).toEqual([]);
  });

  it("counts requests by verb and resource", async () => {
    const records: RequestRecord[] = [];
    const maps = connect({ onRequest: (record) => records.push(record) });
    server.put("counted");
    await maps.mergePatch({ name: "counted" }, { status: {} }, { subresource: "status" }).catch(() => undefined);
    await maps.list();
    expect(
      records.map(({ verb, resource, name, subresource, httpStatus }) => [
        verb,
        resource.plural,
        name,
        subresource,
        httpStatus,
      ]),
    ).toEqual([
      ["patch", "configmaps", "counted", "status", 200],
      ["list", "configmaps", undefined, undefined, 200],
    ]);
  });

  it("presents a renewed credential after a 401", async () => {
    let renewed = 0;
    const client = new KubeClient({
      server: server.url,
      namespace: "default",
      credentials: {
        renewable: true,
        current: (fresh) => Promise.resolve({ token: fresh ? `token-${++renewed}` : "old" }),
      },
    });
    clients.push(client);
    server.put("there");
    server.refuse({ times: 1, httpStatus: 401 });
    await client.resource(coreResources.configMaps).get({ name: "there" });
    expect(server.requests.slice(-2).map(({ headers }) => headers.authorization)).toEqual([
      "Bearer old",
      "Bearer token-1",
    ]);
    server.refuse({ times: 2, httpStatus: 401 });
    await expect(client.resource(coreResources.configMaps).get({ name: "there" })).rejects.toMatchObject({
      code: "Unauthorized",
    });
  });
});
