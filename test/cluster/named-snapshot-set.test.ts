import { afterAll, beforeAll, expect, it } from "vitest";
import type { Sandbox } from "../../src/api/kinds/sandbox.ts";
import { isConditionTrue } from "../../src/kube/conditions.ts";
import { openSnapshotWorld, type SnapshotWorld } from "./named-snapshot-world.ts";

/** Tests with real cells a set that is filled from a named snapshot, and rolls when another version becomes current. */
let world: SnapshotWorld;

beforeAll(async () => {
  world = await openSnapshotWorld();
});
afterAll(() => world.close());

const recipe = (word: string) => [
  { run: `mkdir -p /srv && echo ${word} > /srv/index.html` },
  { start: "exec python3 -m http.server 8000 -d /srv" },
  { waitFor: { port: 8000 } },
  { start: "exec python3 -m http.server 8001 --bind 127.0.0.1" },
  { waitFor: { port: 8001 } },
];
const patient = { timeout: 60_000, interval: 20 };
const members = (): Sandbox[] =>
  world.cluster.seen.sandboxes.store
    .list()
    .filter(({ metadata }) => metadata.ownerReferences?.some(({ kind }) => kind === "SandboxSet") === true);
const ready = (): Sandbox[] =>
  members().filter(
    ({ metadata, status }) => metadata.deletionTimestamp === undefined && isConditionTrue(status?.conditions, "Ready"),
  );
/** Sends one request to each ready sandbox. The response is undefined for a sandbox that ends meanwhile. */
const responses = () =>
  Promise.all(
    ready().map(async ({ status }) => {
      const response = await fetch(`http://${status?.sandboxIp ?? ""}:8000/`).catch(() => undefined);
      return (await response?.text())?.trim();
    }),
  );

it("fills a set from the first version, and rolls it to the next without fewer ready sandboxes", async () => {
  await world.cluster.create({
    apiVersion: "agents.kruise.io/v1alpha1",
    kind: "SandboxSet",
    metadata: { name: "pool", namespace: "t" },
    spec: {
      replicas: 2,
      updateStrategy: { maxUnavailable: 0 },
      template: { metadata: { annotations: { "ramet.dev/restore-from": "web" } } },
    },
  });
  await world.apply("web", { from: { template: { name: "base" } }, recipe: recipe("one") });
  await world.until("web", ({ status }) => status?.version === 1);
  await expect.poll(responses, patient).toEqual(["one", "one"]);

  let fewest = 2;
  const stop = world.cluster.seen.sandboxes.store.subscribe(() => {
    fewest = Math.min(fewest, ready().length);
  });
  await world.apply("web", { from: { template: { name: "base" } }, recipe: recipe("two") });
  await world.until("web", ({ status }) => status?.version === 2);
  await expect.poll(responses, patient).toEqual(["two", "two"]);
  stop();
  expect(fewest).toBe(2);
});
