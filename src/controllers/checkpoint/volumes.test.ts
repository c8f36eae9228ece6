import { expect, it } from "vitest";
import { Checkpoint } from "../../api/kinds/checkpoint.ts";
import { SandboxTemplate } from "../../api/kinds/sandbox-template.ts";
import { RametError } from "../../base/errors.ts";
import { volumesOfSource, withoutVolumes } from "./volumes.ts";

const metadata = {
  name: "one",
  namespace: "t",
  uid: "uid-one",
  resourceVersion: "1",
  creationTimestamp: "2026-11-24T00:00:00Z",
};
const checkpoint = Checkpoint.parse({
  apiVersion: "agents.kruise.io/v1alpha1",
  kind: "Checkpoint",
  metadata,
  spec: { sandboxName: "a" },
});

const gone = { problem: new RametError("SandboxLost", "the Pod a no longer exists") };

function claimsOfKept(spec: object): string[] {
  const kept = SandboxTemplate.parse({
    apiVersion: "agents.kruise.io/v1alpha1",
    kind: "SandboxTemplate",
    metadata,
    spec,
  });
  return volumesOfSource(checkpoint, gone, { templatesOwnedBy: () => [kept] }).map(({ claim }) => claim);
}

it("finds the claims of a source that no longer exists in its kept template", () => {
  const home = { name: "home", persistentVolumeClaim: { claimName: "home-a" } };
  const template = { spec: { containers: [{ name: "main", image: "x" }], volumes: [home] } };
  expect(claimsOfKept({ template, volumeClaimTemplates: [{ metadata: { name: "home" } }] })).toEqual([
    "home-a",
    "home-a",
  ]);
});

it("still finds the claim templates when a user has made the rest of the kept template invalid", () => {
  const template = { spec: { containers: "none", volumes: "none" } };
  expect(
    claimsOfKept({ template, volumeClaimTemplates: [{ metadata: { name: "home" } }, { metadata: null }] }),
  ).toEqual(["home-a"]);
});

it("lists so many claims that the message fits into a condition", () => {
  const volumes = Array.from({ length: 300 }, (_, at) => ({ volume: `v${at}`, claim: String(at).padStart(253, "x") }));
  const now = new Date(0);
  const incomplete = withoutVolumes({ checkpoint, volumes, now }, { parts: [] });
  const { message = "" } = incomplete?.conditions[0] ?? {};
  expect(message).toContain("and 200 more");
  expect(message.length).toBeLessThan(32_768);
});
