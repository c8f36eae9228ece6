import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { annotations, labels } from "../../src/api/names/labels.ts";
import { allRights, type Answer, callClientApi, createKey, createTemplate } from "../cluster/client-api-world.ts";
import { type Cluster, openCluster } from "../cluster/controllers-cluster.ts";
import { StandInNode } from "../cluster/controllers-stand-in-node.ts";
import { ClientApiProcess } from "../setup/client-api-process.ts";
import { Instants } from "./instants.ts";

/** The client API is killed during requests, which their client then repeats. Real controllers; the cells are stand-ins. */
const namespace = "team-a";
const rounds = 6;

describe("a client API that is killed", () => {
  const instants = new Instants();
  let cluster: Cluster;
  let server: ClientApiProcess;
  let key: string;

  beforeAll(async () => {
    cluster = await openCluster({ startNode: new StandInNode().start });
    await cluster.namespace(namespace);
    await createTemplate(cluster.client, namespace);
    key = await createKey(cluster.client, { namespace, name: "agent", rules: allRights });
    server = await ClientApiProcess.start(cluster.kubeconfigPath);
  });
  afterAll(async () => {
    await server.close();
    await cluster.close();
  });
  beforeEach(() => untilServed());
  afterEach(async () => {
    await untilServed();
    for (const { sandboxID } of await sandboxes()) await call("DELETE", `/sandboxes/${sandboxID}`);
    for (const { snapshotID } of await snapshots())
      await call("DELETE", `/templates/${encodeURIComponent(snapshotID)}`);
    await expect.poll(() => cluster.seen.sandboxes.store.list()).toEqual([]);
    await expect.poll(() => cluster.seen.checkpoints.store.list()).toEqual([]);
  });

  const call = (method: string, path: string, body?: unknown, headers?: object): Promise<Answer> =>
    callClientApi(server.url, key, [method, path, body, headers]);
  const sandboxes = async () => (await call("GET", "/v2/sandboxes")).json as { sandboxID: string; state: string }[];
  const snapshots = async () => (await call("GET", "/snapshots")).json as { snapshotID: string; names: string[] }[];
  const untilServed = () => expect.poll(async () => (await call("GET", "/v2/sandboxes")).status).toBe(200);

  async function create(headers?: object): Promise<string> {
    const answer = await call("POST", "/sandboxes", { templateID: "base", timeout: 3600 }, headers);
    expect(answer).toMatchObject({ status: 201 });
    return (answer.json as { sandboxID: string }).sandboxID;
  }

  /** Sends a request, kills the server at a random instant, and starts it again. @returns its answer, if it had one */
  async function killDuring(request: () => Promise<Answer>): Promise<Answer | undefined> {
    const answered = request().catch(() => undefined);
    await sleep(instants.below(120));
    await server.kill();
    const answer = await answered;
    await server.start();
    return answer;
  }

  const numbered = Array.from({ length: rounds }, (_, round) => round + 1);

  it.each(numbered)("creates one sandbox for a repeated request with an Idempotency-Key (%i)", async (round) => {
    const headers = { "idempotency-key": `round-${round}` };
    const body = { templateID: "base", timeout: 3600, autoPause: true };
    await killDuring(() => call("POST", "/sandboxes", body, headers));
    const answer = await call("POST", "/sandboxes", body, headers);
    expect(answer).toMatchObject({ status: 201 });
    expect(await sandboxes()).toMatchObject([{ sandboxID: (answer.json as { sandboxID: string }).sandboxID }]);
    expect(cluster.seen.sandboxes.store.list()).toHaveLength(1);
  });

  it.each(numbered)("leaves a sandbox that its client can list and that has an end (%i)", async () => {
    await killDuring(() => call("POST", "/sandboxes", { templateID: "base", timeout: 3600 }));
    const left = cluster.seen.sandboxes.store.list();
    expect(left.length).toBeLessThanOrEqual(1);
    for (const { metadata, spec } of left) {
      expect(metadata.annotations?.[annotations.owner]).toBe(`${namespace}/agent`);
      expect(Date.parse(spec.shutdownTime ?? "")).toBeGreaterThan(Date.now());
    }
    expect(await sandboxes()).toHaveLength(left.length);
  });

  it.each(numbered)("pauses a sandbox once, and resumes it (%i)", async () => {
    const sandboxID = await create();
    await killDuring(() => call("POST", `/sandboxes/${sandboxID}/pause`));
    expect([204, 409]).toContain((await call("POST", `/sandboxes/${sandboxID}/pause`)).status);
    expect(await sandboxes()).toMatchObject([{ sandboxID, state: "paused" }]);
    await killDuring(() => call("POST", `/sandboxes/${sandboxID}/connect`, { timeout: 3600 }));
    expect([200, 201]).toContain((await call("POST", `/sandboxes/${sandboxID}/connect`, { timeout: 3600 })).status);
    expect(await sandboxes()).toMatchObject([{ sandboxID, state: "running" }]);
    expect(await snapshots()).toEqual([]);
  });

  it.each(numbered)(
    "moves a named snapshot when the request is repeated, and leaves no checkpoint without a name (%i)",
    async () => {
      const sandboxID = await create();
      const capture = () => call("POST", `/sandboxes/${sandboxID}/snapshots`, { name: "state" });
      await killDuring(capture);
      await expect.poll(async () => (await capture()).status).toBe(201);
      const found = await snapshots();
      expect(found.every(({ snapshotID }) => snapshotID.startsWith("state@sha256:"))).toBe(true);
      expect(found.filter(({ names }) => names.length > 0)).toMatchObject([{ names: ["state"] }]);
      // What a request captured that was killed before it had a version is garbage after an hour.
      const isBuilt = (id: string) =>
        cluster.seen.snapshots.store
          .list()
          .some(({ status }) => status?.versions?.some(({ parent }) => parent === `checkpoint/${id}`));
      const sources = () =>
        cluster.seen.checkpoints.store
          .list()
          .filter(({ metadata }) => metadata.labels?.[labels.sourceOf] === "state")
          .filter(({ status }) => isBuilt(status?.checkpointId ?? ""));
      await expect.poll(sources).toHaveLength(1);
    },
  );

  it.each(numbered)(
    "creates one template of a sandbox for a request of Sandbox0 that is repeated (%i)",
    async (round) => {
      const body = { template_id: "state", sandbox_id: await create() };
      const headers = { "idempotency-key": `template-${round}` };
      const make = () => call("POST", "/sandbox0/api/v1/templates/from-sandbox", body, headers);
      await killDuring(make);
      await expect.poll(async () => (await make()).status).toBe(202);
      await expect.poll(async () => (await snapshots()).map(({ names }) => names)).toEqual([["state"]]);
      const [built] = cluster.seen.snapshots.store.list();
      expect(built?.status?.versions).toHaveLength(1);
    },
  );

  it("answers lists as before", async () => {
    const made = [await create(), await create()];
    const ids = async () => (await sandboxes()).map(({ sandboxID }) => sandboxID).toSorted();
    for (const _ of numbered) {
      await killDuring(() => call("GET", "/v2/sandboxes?limit=1"));
      expect(await ids()).toEqual(made.toSorted());
    }
  });
});
