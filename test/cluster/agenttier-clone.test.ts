import { afterAll, beforeAll, expect, it } from "vitest";
import { checkpointKind } from "../../src/api/kinds/checkpoint.ts";
import { sandboxTemplateKind } from "../../src/api/kinds/sandbox-template.ts";
import { apiVersion } from "../../src/api/schema/kind.ts";
import { refOf } from "../../src/kube/resource-ref.ts";
import { type ClientApiWorld, openWithKey } from "./client-api-world.ts";

let world: ClientApiWorld;
let key: string;
const namespace = "team-a";

beforeAll(async () => {
  ({ world, key } = await openWithKey(namespace));
  await world.cluster.client.resource(refOf(sandboxTemplateKind)).create({
    apiVersion,
    kind: "SandboxTemplate",
    metadata: { namespace, name: "work" },
    spec: {
      template: {
        spec: { containers: [{ name: "main", image: "python", volumeMounts: [{ name: "data", mountPath: "/data" }] }] },
      },
      volumeClaimTemplates: [
        {
          metadata: { name: "data" },
          spec: { accessModes: ["ReadWriteOnce"], resources: { requests: { storage: "1Gi" } } },
        },
      ],
    },
  });
});
afterAll(() => world.close());

async function created(name: string, template: string): Promise<void> {
  const answer = await world.call(key, "POST", "/api/v1/sandboxes", { name, templateRef: { name: template } });
  expect(answer.status, answer.text).toBeLessThan(300);
  const status = async () => (await world.call(key, "GET", `/api/v1/sandboxes/${name}`)).json;
  await expect.poll(status, { timeout: 20_000 }).toMatchObject({ status: "Running" });
}

it("refuses a clone with volumes in a cluster without VolumeSnapshots before anything is created", async () => {
  await created("with-volume", "work");
  const answer = await world.call(key, "POST", "/api/v1/sandboxes/with-volume/clone", { name: "clone" });
  expect(answer.status).toBe(501);
  expect(answer.text).toContain("the cluster has no VolumeSnapshots");
  expect((await world.call(key, "GET", "/api/v1/sandboxes/clone")).status).toBe(404);
  expect((await world.cluster.client.resource(refOf(checkpointKind)).list({ namespace })).items).toEqual([]);
});

it("clones a sandbox without volumes there", async () => {
  await created("plain", "base");
  const answer = await world.call(key, "POST", "/api/v1/sandboxes/plain/clone", { name: "copy" });
  expect(answer).toMatchObject({ status: 202, json: { clonedFrom: "plain", phase: "Pending" } });
});

it("clones a sandbox twice in one second without names, and not again for a repeated request", async () => {
  await created("twice", "base");
  const clone = (idempotencyKey: string) =>
    world.call(key, "POST", "/api/v1/sandboxes/twice/clone", {}, { "idempotency-key": idempotencyKey });
  const answers = await Promise.all([clone("one"), clone("two")]);
  expect(answers).toMatchObject([{ status: 202 }, { status: 202 }]);
  const names = answers.map(({ json }) => (json as { name: string }).name);
  expect(new Set(names).size).toBe(2);
  for (const name of names) expect(name).toMatch(/^twice-clone-\d{10}$/);
  expect((await clone("two")).json).toMatchObject({ name: names[1] });
});

it("keeps the ports of requests at the same time", async () => {
  await created("ports", "base");
  const ports = [8000, 8001, 8002, 8003];
  const path = "/api/v1/sandboxes/ports/ports";
  const answers = await Promise.all(ports.map((port) => world.call(key, "POST", path, { port })));
  expect(answers.map(({ status }) => status)).toEqual(ports.map(() => 201));
  const { json } = await world.call(key, "GET", path);
  expect((json as { ports: { port: number }[] }).ports.map(({ port }) => port).toSorted()).toEqual(ports);
});
