import { expect, it } from "vitest";
import { labels } from "../api/names/labels.ts";
import type { Sandbox } from "../api/kinds/sandbox.ts";
import { ObjectStore } from "../kube/store.ts";
import { Stock } from "./stock.ts";

function ready(name: string, engine: string): Sandbox {
  return {
    apiVersion: "agents.kruise.io/v1alpha1",
    kind: "Sandbox",
    metadata: {
      name,
      namespace: "n",
      uid: name,
      resourceVersion: "1",
      creationTimestamp: "2026-01-01T00:00:00Z",
      ownerReferences: [{ apiVersion: "agents.kruise.io/v1alpha1", kind: "SandboxSet", name: "pool", uid: "u" }],
      labels: { [labels.sandboxPool]: "pool", [labels.sandboxClaimed]: "false" },
    },
    spec: {},
    status: {
      phase: "Running",
      conditions: [{ type: "Ready", status: "True", reason: "r", message: "", lastTransitionTime: "" }],
      ramet: { engine },
    },
  };
}

it("hands out a sandbox that fits the memory to restore, and any other if none does", () => {
  const store = new ObjectStore<Sandbox>(() => undefined);
  store.replace([ready("a", "1"), ready("b", "2"), ready("c", "1"), ready("d", "2")], true);
  const stock = new Stock({ store, revisionOf: () => undefined, random: () => 0 });
  const take = (engine?: string) =>
    stock.take("n/pool", engine === undefined ? undefined : ({ status }) => status?.ramet?.engine === engine)?.metadata
      .name;
  expect([take("2"), take("2"), take("2"), take(), take()]).toEqual(["b", "d", "a", "c", undefined]);
});
