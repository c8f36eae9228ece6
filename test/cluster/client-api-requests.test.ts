import { connect } from "node:net";
import { once } from "node:events";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { Checkpoint, checkpointKind } from "../../src/api/kinds/checkpoint.ts";
import { refOf } from "../../src/kube/resource-ref.ts";
import { allRights as all, type ClientApiWorld, openWithKey } from "./client-api-world.ts";

/** Requests that are repeated, malformed, slow or too large. */
let world: ClientApiWorld;
let key: string;

beforeAll(async () => {
  ({ world, key } = await openWithKey("team-a"));
});
afterAll(() => world.close());

async function create(body: object = {}, headers: object = {}): Promise<string> {
  const answer = await world.call(key, "POST", "/sandboxes", { templateID: "base", timeout: 3600, ...body }, headers);
  expect(answer).toMatchObject({ status: 201 });
  return (answer.json as { sandboxID: string }).sandboxID;
}

async function snapshot(sandboxID: string, body: object = {}): Promise<{ snapshotID: string; names: string[] }> {
  const answer = await world.call(key, "POST", `/sandboxes/${sandboxID}/snapshots`, body);
  expect(answer).toMatchObject({ status: 201 });
  return answer.json as { snapshotID: string; names: string[] };
}

/** The named snapshot's version of the checkpoint from which a new sandbox is restored. */
async function originOf(templateID: string): Promise<string | undefined> {
  const { json, status } = await world.call(key, "POST", "/sandboxes", { templateID, timeout: 60 });
  if (status !== 201) return String(status);
  const { sandboxID } = json as { sandboxID: string };
  const { name } = (await world.call(key, "GET", `/sandboxes/${sandboxID}`)).json as { name: string };
  const { status: shown } = await world.cluster.sandbox(`team-a/${name}`, () => true);
  return shown?.ramet?.restoredFrom;
}

async function listed(query = ""): Promise<string[]> {
  const { json } = await world.call(key, "GET", `/snapshots${query}`);
  return (json as { snapshotID: string }[]).map(({ snapshotID }) => snapshotID);
}

/** Sends bytes on a connection of their own. @returns what the server answers until it closes the connection */
async function raw(...parts: string[]): Promise<string> {
  const { port, hostname } = new URL(world.url);
  const socket = connect(Number(port), hostname);
  let received = "";
  socket.on("data", (bytes: Buffer) => (received += bytes.toString("latin1"))).on("error", () => undefined);
  for (const part of parts) socket.write(part);
  await once(socket, "close");
  return received;
}

describe("a repeated request", () => {
  it("creates one sandbox for each Idempotency-Key, also when both arrive at once", async () => {
    const headers = { "idempotency-key": "first" };
    const [one, two] = await Promise.all([create({}, headers), create({}, headers)]);
    expect([one, await create({}, headers)]).toEqual([two, two]);
    expect(await create({}, { "idempotency-key": "second" })).not.toBe(one);
    expect(await create()).not.toBe(one);
  });

  it("with a key that is not valid as a header of other systems, still creates one", async () => {
    const headers = { "idempotency-key": "../*:😀 with spaces".normalize("NFKD").replace(/[^\x20-\x7e]/g, "?") };
    expect(await create({}, headers)).toBe(await create({}, headers));
  });
});

describe("a snapshot", () => {
  it("does not occupy its sandbox while it is being deleted, however long that takes", async () => {
    const sandboxID = await create();
    const { snapshotID } = await snapshot(sandboxID);
    const checkpoints = world.cluster.client.resource(refOf(checkpointKind), (value) => Checkpoint.parse(value));
    const { items } = await checkpoints.list({ namespace: "team-a" });
    const { metadata } = items.find(({ status }) => status?.checkpointId === snapshotID)!;
    const held = [...(metadata.finalizers ?? []), "example.com/held"];
    await checkpoints.mergePatch(metadata, { metadata: { finalizers: held } });
    try {
      expect(await world.call(key, "DELETE", `/templates/${snapshotID}`)).toMatchObject({ status: 204 });
      await expect.poll(async () => (await checkpoints.get(metadata)).status?.phase).toBe("Terminating");
      expect(await world.call(key, "POST", `/sandboxes/${sandboxID}/fork`, {})).toMatchObject({ status: 201 });
      const connected = await world.call(key, "POST", `/sandboxes/${sandboxID}/connect`, { timeout: 300 });
      expect(connected).toMatchObject({ status: 200 });
    } finally {
      await checkpoints.mergePatch(metadata, { metadata: { finalizers: null } });
    }
  });

  it.each([
    ["by its id", (id: string) => id],
    ["by its id and tag", (id: string) => `${id}:default`],
    ["by its id and encoded tag", (id: string) => `${id}%3Adefault`],
    ["with its namespace", (id: string) => `team-a/${id}`],
    ["with its encoded namespace and tag", (id: string) => `team-a%2F${id}%3Adefault`],
  ])("is deleted %s", async (_, form) => {
    const { snapshotID } = await snapshot(await create());
    const path = `/templates/${form(snapshotID)}`;
    expect(await world.call(key, "DELETE", path)).toMatchObject({ status: 204 });
    await expect.poll(async () => (await world.call(key, "DELETE", path)).status).toBe(404);
    await expect.poll(() => listed()).not.toContain(snapshotID);
  });

  it.each(["kept", "kept:default", "kept%3Adefault", "team-a/kept:v1", "team-a%2Fkept%3Av1"])(
    "with a name is deleted by %s",
    async (form) => {
      const { snapshotID, names } = await snapshot(await create(), { name: "kept:v1" });
      expect(snapshotID).toMatch(/^kept@sha256:[0-9a-f]{64}$/);
      expect(names).toEqual(["kept", "kept:v1"]);
      expect(await world.call(key, "DELETE", `/templates/${form}`)).toMatchObject({ status: 204 });
      await expect.poll(() => listed()).not.toContain(snapshotID);
    },
  );

  describe("with a name and tags", () => {
    it("has an id that names it also after others with the name, and only it", async () => {
      const sandboxID = await create();
      const first = await snapshot(sandboxID, { name: "release:v1" });
      const second = await snapshot(sandboxID, { name: "Release:V2" });
      const third = await snapshot(sandboxID, { name: "release" });
      expect([first, second, third].map(({ names }) => names)).toEqual([
        ["release", "release:v1"],
        ["release", "release:v2"],
        ["release"],
      ]);
      const ids = [first, second, third].map(({ snapshotID }) => snapshotID);
      const origins = await Promise.all(ids.map(originOf));
      expect(new Set(origins).size).toBe(3);
      expect(await originOf("RELEASE:v1")).toBe(origins[0]);
      expect(await originOf("team-a/Release:v2")).toBe(origins[1]);
      expect(await originOf("release")).toBe(origins[2]);
      expect((await listed(`?sandboxID=${sandboxID}`)).toSorted()).toEqual(ids.toSorted());

      const deleted = (id: string) => world.call(key, "DELETE", `/templates/${encodeURIComponent(id)}`);
      expect(await deleted(ids[0]!)).toMatchObject({ status: 204 });
      await expect.poll(() => originOf(ids[0]!)).toBe("404");
      expect(await originOf("release:v1")).toBe("404");
      expect(await originOf(ids[1]!)).toBe(origins[1]);
      expect(await deleted(ids[2]!)).toMatchObject({ status: 204 });
      await expect.poll(() => originOf("release")).toBe(origins[1]);
      await expect.poll(() => originOf(ids[2]!)).toBe("404");

      const fourth = await snapshot(sandboxID, { name: "release" });
      expect(await originOf("release")).toBe(await originOf(fourth.snapshotID));
      expect(await deleted(fourth.snapshotID)).toMatchObject({ status: 204 });
      await expect.poll(() => originOf("release")).toBe(origins[1]);
      expect(await deleted(ids[1]!)).toMatchObject({ status: 204 });
      await expect.poll(() => originOf("release")).toBe("404");
      const again = await snapshot(sandboxID, { name: "release" });
      expect(ids).not.toContain(again.snapshotID);
      expect(await Promise.all(ids.map(originOf))).toEqual(["404", "404", "404"]);
    });
  });

  it("with the name of others that are created concurrently has an id and a tag that name it only", async () => {
    const sources = await Promise.all([create(), create()]);
    const made = await Promise.all(
      ["one", "two", "three", "four"].map((tag, at) => snapshot(sources[at % 2]!, { name: `shared:${tag}` })),
    );
    expect(new Set(made.map(({ snapshotID }) => snapshotID)).size).toBe(4);
    for (const { names } of made) expect(names).toContainEqual(expect.stringMatching(/^shared:/));
    const { json } = await world.call(key, "GET", "/templates/shared/tags");
    const tags = (json as { tag: string }[]).map(({ tag }) => tag);
    expect(tags).toEqual(expect.arrayContaining(["one", "two", "three", "four"]));
    const origins = await Promise.all(made.map(({ snapshotID }) => originOf(snapshotID)));
    expect(new Set(origins).size).toBe(4);
    expect(await Promise.all(["one", "two", "three", "four"].map((tag) => originOf(`shared:${tag}`)))).toEqual(origins);
  });

  it("with a time that is not valid is refused, with the name of the header", async () => {
    const sandboxID = await create();
    const headers = { "x-e2b-kruise-snapshot-ttl": "soon" };
    const { status, text } = await world.call(key, "POST", `/sandboxes/${sandboxID}/snapshots`, {}, headers);
    expect([status, text]).toEqual([400, expect.stringContaining("x-e2b-kruise-snapshot-ttl")]);
    expect(text).toContain("must be a duration like 30m");
    expect(await listed(`?sandboxID=${sandboxID}`)).toEqual([]);
  });

  it("is found by its source and its name, page by page", async () => {
    const sandboxID = await create();
    const first = await snapshot(sandboxID);
    const second = await snapshot(sandboxID, { name: "listed" });
    const third = await snapshot(sandboxID);
    const bySource = `?sandboxID=${sandboxID}`;
    expect((await listed(bySource)).toSorted()).toEqual(
      [first, second, third].map((each) => each.snapshotID).toSorted(),
    );
    const pages: string[] = [];
    for (let next: string | null = ""; next !== null;) {
      const token: string = next === "" ? "" : `&nextToken=${next}`;
      const { json, headers } = await world.call(key, "GET", `/snapshots${bySource}&limit=1${token}`);
      const [only, ...others] = json as { snapshotID: string }[];
      expect(others).toEqual([]);
      pages.push(only?.snapshotID ?? "");
      next = headers.get("x-next-token");
    }
    expect(pages).toEqual(await listed(bySource));
    for (const name of ["listed", "listed:default", "team-a/listed", "team-a%2Flisted%3Adefault"])
      expect(await listed(`?name=${name}`)).toEqual([second.snapshotID]);
    expect(await listed("?name=unknown")).toEqual([]);
    expect(await listed("?sandboxID=unknown")).toEqual([]);
  });

  it.each(["limit=0", "limit=101", "limit=x", "nextToken=x", "nextToken=", "limit=1&limit=2"])(
    "is not listed with ?%s",
    async (query) => {
      expect(await world.call(key, "GET", `/snapshots?${query}`)).toMatchObject({ status: 400, json: { code: 400 } });
    },
  );
});

describe("the limits of a key", () => {
  it("count its sandboxes and the bytes of its snapshots", async () => {
    const limited = await world.key("team-a", "limited", all, { sandboxes: 2, snapshotBytes: 1 });
    const call = (path: string, body: object) => world.call(limited, "POST", path, body);
    const created = await call("/sandboxes", { templateID: "base" });
    const { sandboxID } = created.json as { sandboxID: string };
    expect(await call(`/sandboxes/${sandboxID}/snapshots`, {})).toMatchObject({ status: 201 });
    for (const path of ["snapshots", "fork"]) {
      await expect
        .poll(() => call(`/sandboxes/${sandboxID}/${path}`, {}))
        .toMatchObject({ status: 429, json: { message: expect.stringContaining("bytes, and may have 1") as unknown } });
    }
    expect(await call("/v3/templates", { name: "another" })).toMatchObject({ status: 429 });
    expect(await call("/sandboxes", { templateID: "base" })).toMatchObject({ status: 201 });
    await expect
      .poll(() => call("/sandboxes", { templateID: "base" }))
      .toMatchObject({ status: 429, json: { message: expect.stringContaining("has 2 sandboxes") as unknown } });
  });

  it("hold for requests at the same time, and for each clone of a fork", async () => {
    const racing = await world.key("team-a", "racing", all, { sandboxes: 5 });
    const call = (path: string, body: object) => world.call(racing, "POST", path, body);
    const answers = await Promise.all(Array.from({ length: 100 }, () => call("/sandboxes", { templateID: "base" })));
    expect(answers.filter(({ status }) => status === 201)).toHaveLength(5);
    expect(answers.filter(({ status }) => status === 429)).toHaveLength(95);
    const [first, second] = answers
      .filter(({ status }) => status === 201)
      .map(({ json }) => json as { sandboxID: string });
    expect(await world.call(racing, "DELETE", `/sandboxes/${first?.sandboxID ?? ""}`)).toMatchObject({ status: 204 });
    expect(await call(`/sandboxes/${second?.sandboxID ?? ""}/fork`, { count: 2 })).toMatchObject({ status: 429 });
    await expect
      .poll(() => call(`/sandboxes/${second?.sandboxID ?? ""}/fork`, { count: 1 }), { timeout: 20_000 })
      .toMatchObject({ status: 201 });
    expect(await call("/sandboxes", { templateID: "base" })).toMatchObject({ status: 429 });
  });

  it("count its requests, and say when to come back", async () => {
    const slow = await world.key("team-a", "slow", all, { requestsPerSecond: 1 });
    const answers = await Promise.all(Array.from({ length: 5 }, () => world.call(slow, "GET", "/v2/sandboxes")));
    const refused = answers.filter(({ status }) => status === 429);
    expect(refused.length).toBeGreaterThan(0);
    expect(Number(refused[0]?.headers.get("retry-after"))).toBeGreaterThan(0);
  });
});

describe("the network of a sandbox", () => {
  it("is closed without internet access", async () => {
    await create({ allow_internet_access: false });
  });

  it("is replaced as a whole", async () => {
    const sandboxID = await create({ network: { denyOut: ["0.0.0.0/0"], allowOut: ["example.org"] } });
    const put = (body: object) => world.call(key, "PUT", `/sandboxes/${sandboxID}/network`, body);
    const egress = async () => {
      const { json } = await world.call(key, "GET", `/sandboxes/${sandboxID}`);
      const { name } = json as { name: string };
      const object = await world.cluster.sandbox(`team-a/${name}`, () => true);
      return object.metadata.annotations?.["ramet.dev/egress"];
    };
    expect(await put({ allow_internet_access: false })).toMatchObject({ status: 204 });
    await expect.poll(egress).toBe('{"default":"deny","allow":[],"deny":[]}');
    expect(await put({ denyOut: ["10.0.0.0/8"] })).toMatchObject({ status: 204 });
    await expect.poll(egress).toBe('{"default":"allow","allow":[],"deny":["10.0.0.0/8"]}');
    expect(await put({ allowOut: ["example.org"] })).toMatchObject({ status: 400 });
    expect(await put({ dnsServers: ["example.org"] })).toMatchObject({ status: 400 });
    expect(await put({})).toMatchObject({ status: 204 });
    await expect.poll(egress).toBe(undefined);
  });
});

describe("a request that is not valid", () => {
  it.each([
    ["no body", "POST", "/sandboxes", undefined],
    ["another type", "POST", "/sandboxes", []],
    ["no template", "POST", "/sandboxes", {}],
    ["a text as a time", "POST", "/sandboxes", { templateID: "base", timeout: "5" }],
    ["a negative time", "POST", "/sandboxes", { templateID: "base", timeout: -1 }],
    ["a time that is too long", "POST", "/sandboxes", { templateID: "base", timeout: 9_999_999_999 }],
    ["a name that is too long", "POST", "/sandboxes", { templateID: "a".repeat(501) }],
    ["numbers as variables", "POST", "/sandboxes", { templateID: "base", envVars: { A: 1 } }],
    ["a name that is no variable", "POST", "/sandboxes", { templateID: "base", envVars: { "A=B": "" } }],
    ["a value that no variable can have", "POST", "/sandboxes", { templateID: "base", envVars: { A: "a\0b" } }],
  ])("with %s gets 400", async (_, method, path, body) => {
    const answer = await world.call(key, method, path, body);
    expect(answer).toMatchObject({ status: 400, json: { code: 400 } });
  });

  it.each([
    "/sandboxes/../../etc/passwd",
    "/sandboxes/%2e%2e%2f%2e%2e",
    "/sandboxes/..%2f..%2fv2",
    "/sandboxes/%00",
    "/sandboxes/team-a--",
    "/sandboxes/team-a--..%2Fx",
    "//sandboxes",
    "/sandboxes/",
    "/SANDBOXES",
    "/sandboxes;a=b",
    `/sandboxes/${"%41".repeat(300)}`,
  ])("for %s gets 404", async (path) => {
    const answer = await raw(`GET ${path} HTTP/1.1\r\nHost: x\r\nX-API-Key: ${key}\r\nConnection: close\r\n\r\n`);
    expect(answer).toMatch(/^HTTP\/1\.1 404 [\s\S]*\{"code":404,/);
  });

  it.each(["/sandboxes/%zz", `/sandboxes/${"a".repeat(1_001)}`])("for the path %s gets 400", async (path) => {
    const answer = await raw(`GET ${path} HTTP/1.1\r\nHost: x\r\nX-API-Key: ${key}\r\nConnection: close\r\n\r\n`);
    expect(answer).toMatch(/^HTTP\/1\.1 400 [\s\S]*\{"code":400,/);
  });

  it("with a body that is too large gets 413 or 400, and no sandbox", async () => {
    const answer = await world.call(key, "POST", "/sandboxes", {
      templateID: "base",
      envVars: { A: "a".repeat(1 << 20) },
    });
    expect([400, 413]).toContain(answer.status);
  });

  it("with headers that are too large gets 431", async () => {
    const answer = await raw(`GET /v2/sandboxes HTTP/1.1\r\nHost: x\r\nX-API-Key: ${"a".repeat(64 * 1024)}\r\n\r\n`);
    expect(answer).toMatch(/^HTTP\/1\.1 431 /);
  });

  it("that never ends is cut off, while others are served", async () => {
    const half = raw(`POST /sandboxes HTTP/1.1\r\nHost: x\r\nX-API-Key: ${key}\r\nContent-Length: 100\r\n\r\n{`);
    expect(await world.call(key, "GET", "/v2/sandboxes")).toMatchObject({ status: 200 });
    expect(await half).toMatch(/^(HTTP\/1\.1 408 |$)/);
  });
});

it("answers the requests in progress before it ends, and accepts no others", async () => {
  const created = create();
  await expect.poll(async () => (await world.call(key, "GET", "/v2/sandboxes")).status).toBe(200);
  const stopped = world.stopServer();
  expect(await created).toMatch(/^[0-9a-f]{32}$/);
  await stopped;
  await expect(world.call(key, "GET", "/health")).rejects.toThrow();
});
