import { expect, it } from "vitest";
import { Sandbox } from "../../api/kinds/sandbox.ts";
import { Pod } from "../../api/schema/pod.ts";
import type { SandboxDependencies } from "./dependencies.ts";
import { nodeOfClaims } from "./gather-volumes.ts";

const meta = (name: string) => ({
  name,
  namespace: "t",
  uid: name,
  resourceVersion: "1",
  creationTimestamp: "2030-01-01T00:00:00Z",
});
const sandbox = Sandbox.parse({
  apiVersion: "agents.kruise.io/v1alpha1",
  kind: "Sandbox",
  metadata: meta("a"),
  spec: {},
});
const other = Pod.parse({
  metadata: meta("b"),
  spec: { nodeName: "old", containers: [{ name: "main", image: "i" }] },
  status: { phase: "Running" },
});

it.each([
  ["of another sandbox", "ReadWriteOnce", false, "old"],
  ["that many nodes can mount", "ReadWriteMany", false, undefined],
  ["of a sandbox that leaves its node too", "ReadWriteOnce", true, undefined],
])("follows a volume %s to its node, if that is needed", (_, mode, leaving, node) => {
  const claim = { metadata: { namespace: "t", name: "data" }, spec: { accessModes: [mode] } };
  const dependencies = { cache: { podsOfClaim: () => [other] }, departures: { leaves: () => ({ leaving }) } };
  const claims = [claim] as unknown as Parameters<typeof nodeOfClaims>[1];
  expect(nodeOfClaims(sandbox, claims, dependencies as unknown as SandboxDependencies)).toBe(node);
});
