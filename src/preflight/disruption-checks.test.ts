import { expect, it } from "vitest";
import type { Checkpoint } from "../api/kinds/checkpoint.ts";
import { Pod } from "../api/schema/pod.ts";
import { type ClusterFacts, DisruptionBudget } from "./cluster-facts.ts";
import { checkDisruptions } from "./disruption-checks.ts";

const mib = 1024 ** 2;
const pod = (name: string, policy?: string, memory = "3000Mi") =>
  Pod.parse({
    metadata: {
      name,
      namespace: "t",
      uid: name,
      resourceVersion: "1",
      creationTimestamp: "2030-01-01T00:00:00Z",
      annotations: policy === undefined ? {} : { "ramet.dev/on-disruption": policy },
    },
    spec: {
      terminationGracePeriodSeconds: 30,
      containers: [{ name: "sandbox", image: "i", resources: { limits: { memory } } }],
    },
  });
/** 100 MiB a second. */
const captures = [
  {
    metadata: { name: "c" },
    status: { ramet: { sizeBytes: 1000 * mib, cutAt: "2030-01-01T00:00:00Z", readyAt: "2030-01-01T00:00:10Z" } },
  },
] as unknown as Checkpoint[];
const good = { cells: { value: [] }, captures: { value: captures }, budgets: { value: [] }, shutdowns: { value: [] } };
const found = (check: string, facts: Partial<ClusterFacts>) =>
  checkDisruptions({ ...good, ...facts } as ClusterFacts).find((one) => one.check === check);

it("names the sandboxes whose grace period is too short, with the one that it must have", () => {
  const cells = { value: [pod("small", "Migrate", "100Mi"), pod("large", "Pause"), pod("ends", "End")] };
  expect(found("grace-periods", { cells })).toEqual({
    check: "grace-periods",
    level: "warning",
    message: "The grace period is too short for a capture of t/large: t/large needs up to 31 s, and 30 s leave 19 s",
    action: "Set terminationGracePeriodSeconds to at least 42 in the template",
  });
});

it("does not guess without a capture, without rights, or without a limit", () => {
  const cells = { value: [pod("a", "Migrate")] };
  expect(found("grace-periods", { cells, captures: { value: [] } })).toMatchObject({ level: "unknown" });
  expect(found("grace-periods", { cells: { unknown: "refused" } })).toMatchObject({ level: "unknown" });
  const unlimited = pod("a", "Migrate");
  delete unlimited.spec.containers[0]?.resources;
  expect(found("grace-periods", { cells: { value: [unlimited] } })?.message).toContain("except for 1 without");
});

it("names the sandboxes in Pods of earlier releases", () => {
  expect(found("earlier-pods", { cells: { value: [pod("old"), pod("new", "End")] } })).toMatchObject({
    level: "warning",
    message: "Sandboxes run in Pods of an earlier release, and a drain loses them: t/old",
  });
});

it("names budgets that keep sandboxes from being evicted, and sandboxes with two of them", () => {
  const cells = { value: [pod("a", "Migrate"), pod("b", "Migrate")] };
  const budget = (name: string, { namespace = "t", allowed = 0, owner = "" } = {}) =>
    DisruptionBudget.parse({
      metadata: {
        name,
        namespace,
        uid: name,
        resourceVersion: "1",
        ...(owner && { ownerReferences: [{ apiVersion: "v1", kind: owner, name, uid: name, controller: true }] }),
      },
      spec: { selector: {} },
      status: { disruptionsAllowed: allowed },
    });
  const said = (...all: DisruptionBudget[]) => found("disruption-budgets", { cells, budgets: { value: all } });
  expect(said(budget("strict"))).toMatchObject({
    level: "warning",
    message: expect.stringContaining("t/strict") as string,
  });
  expect(said(budget("one"), budget("other"))?.message).toContain("two PodDisruptionBudgets select: t/a, t/b");
  for (const fine of [
    budget("mild", { allowed: 1 }),
    budget("of-set", { owner: "SandboxSet" }),
    budget("x", { namespace: "x" }),
  ])
    expect(said(fine)?.level).toBe("ok");
  expect(found("disruption-budgets", { budgets: { unknown: "refused" } })?.level).toBe("unknown");
});

it("reports how long kubelets wait at a shutdown, or that it cannot be read", () => {
  const seen = [
    { node: "a", seconds: 0 },
    { node: "b", seconds: 30 },
  ];
  expect(found("node-shutdown", { shutdowns: { value: seen } })?.message).toContain("within 30 s");
  expect(found("node-shutdown", { shutdowns: { value: seen.slice(0, 1) } })?.message).toContain("immediately");
  expect(found("node-shutdown", { shutdowns: { unknown: "refused", refused: "nodes/proxy" } })?.level).toBe("unknown");
});
