import { afterAll, beforeAll, describe, expect, it, vi } from "vitest";
import type { Sandbox } from "../../src/api/kinds/sandbox.ts";
import { annotations, labels } from "../../src/api/names/labels.ts";
import { type ClientApiWorld, openWithKey } from "./client-api-world.ts";

/** A clone has what its own source promises, wherever ready sandboxes of similar sets are. */
let world: ClientApiWorld;
let key: string;
const namespace = "team-a";

beforeAll(async () => {
  ({ world, key } = await openWithKey(namespace));
});
afterAll(() => world.close());

const egress = JSON.stringify({ default: "deny" });

interface SetOptions {
  replicas?: number;
  memory?: string;
  who?: string;
  annotations?: Record<string, string>;
  contents?: string[];
}

function templateOf({ memory = "256Mi", who = "same", annotations: notes = {} }: SetOptions) {
  const env = [{ name: "WHO", value: who }];
  const main = { name: "main", image: "python", env, resources: { limits: { memory } } };
  return { metadata: { annotations: notes }, spec: { containers: [main] } };
}

async function createSet(name: string, options: SetOptions): Promise<void> {
  const { replicas = 4, contents } = options;
  await world.cluster.create({
    apiVersion: "agents.kruise.io/v1alpha1",
    kind: "SandboxSet",
    metadata: { name, namespace },
    spec: { replicas, template: templateOf(options), ...(contents && { persistentContents: contents }) },
  });
  await vi.waitFor(
    () => {
      expect(stockOf(name).filter(isReady)).toHaveLength(replicas);
    },
    {
      timeout: 30_000,
      interval: 50,
    },
  );
}

function stockOf(set: string): Sandbox[] {
  return world.cluster.seen.sandboxes.store
    .list()
    .filter(({ metadata }) => metadata.labels?.[labels.sandboxPool] === set)
    .filter(({ metadata }) => metadata.labels?.[labels.sandboxClaimed] === "false");
}

function isReady({ status }: Sandbox): boolean {
  return status?.conditions?.some((each) => each.type === "Ready" && each.status === "True") ?? false;
}

async function post(path: string, body: object, status = 201): Promise<unknown> {
  const answer = await world.call(key, "POST", path, body);
  expect(answer).toMatchObject({ status });
  return answer.json;
}

/** Creates a sandbox. @returns its id for clients */
async function create(templateID: string): Promise<string> {
  const { sandboxID } = (await post("/sandboxes", { templateID, timeout: 3600 })) as { sandboxID: string };
  return sandboxID;
}

async function snapshotOf(sandboxID: string): Promise<string> {
  const { snapshotID } = (await post(`/sandboxes/${sandboxID}/snapshots`, {})) as { snapshotID: string };
  return snapshotID;
}

/** The object of a sandbox, as soon as this process has seen it. */
async function objectOf(sandboxID: string): Promise<Sandbox> {
  const { json } = await world.call(key, "GET", `/sandboxes/${sandboxID}`);
  return world.cluster.sandbox(`${namespace}/${(json as { name: string }).name}`, () => true);
}

/** What the Pod of a sandbox has, and what its next capture will contain. */
function promisesOf({ metadata, spec }: Sandbox) {
  const { spec: pod, metadata: template } = spec.template as ReturnType<typeof templateOf>;
  const [main] = pod.containers;
  return {
    memory: main?.resources.limits.memory,
    who: main?.env[0]?.value,
    egress: template.annotations[annotations.egress] ?? metadata.annotations?.[annotations.egress],
    contents: spec.persistentContents,
  };
}

async function clones(snapshot: string, count: number) {
  const ids = await Promise.all(Array.from({ length: count }, () => create(snapshot)));
  return Promise.all(ids.map(objectOf));
}

describe("with two sets that differ only in the contents of their checkpoints", () => {
  beforeAll(async () => {
    await createSet("no-memory", { contents: ["filesystem"] });
    await createSet("memory", { contents: ["memory", "filesystem"] });
  });

  it.each([
    ["memory", ["memory", "filesystem"]],
    ["no-memory", ["filesystem"]],
  ])("a clone of %s keeps %j, in a ready sandbox and in a new Pod", async (set, contents) => {
    const snapshot = await snapshotOf(await create(set));
    const made = await clones(snapshot, 6);
    expect(made.map((each) => promisesOf(each).contents)).toEqual(made.map(() => contents));
    const pools = made.map(({ metadata }) => metadata.labels?.[labels.sandboxPool]);
    expect(pools).toContain(set);
    expect(pools).toContain(undefined);
    expect(new Set(pools)).toEqual(new Set([set, undefined]));
  });

  it("a clone of a clone in a new Pod keeps what the first source keeps", async () => {
    const made = await clones(await snapshotOf(await create("no-memory")), 6);
    const cold = made.find(({ metadata }) => metadata.labels?.[labels.sandboxPool] === undefined)!;
    const { json } = await world.call(key, "GET", "/v2/sandboxes?limit=100");
    const listed = json as { sandboxID: string; name: string }[];
    const { sandboxID } = listed.find(({ name }) => name === cold.metadata.name)!;
    const [again] = await clones(await snapshotOf(sandboxID), 1);
    expect(promisesOf(again!).contents).toEqual(["filesystem"]);
  });
});

describe("with two sets that differ in limits and rules", () => {
  const locked = { who: "locked", annotations: { [annotations.egress]: egress } };

  beforeAll(async () => {
    await createSet("a-open", { who: "open", memory: "128Mi" });
    await createSet("locked", { ...locked, replicas: 2 });
  });

  it("each clone of a snapshot has those of its source", async () => {
    const made = await clones(await snapshotOf(await create("locked")), 4);
    expect(made.map(promisesOf)).toEqual(
      made.map(() => ({ memory: "256Mi", who: "locked", egress, contents: undefined })),
    );
  });

  it("each fork has those of its source", async () => {
    const sandboxID = await create("locked");
    const forked = (await post(`/sandboxes/${sandboxID}/fork`, { count: 4 })) as { sandbox: { sandboxID: string } }[];
    const made = await Promise.all(forked.map(({ sandbox }) => objectOf(sandbox.sandboxID)));
    expect(made.map(promisesOf)).toEqual(
      made.map(() => ({ memory: "256Mi", who: "locked", egress, contents: undefined })),
    );
  });
});
