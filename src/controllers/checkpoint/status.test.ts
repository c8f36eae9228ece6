import { expect, it } from "vitest";
import { Checkpoint, type CheckpointPart } from "../../api/kinds/checkpoint.ts";
import { SandboxTemplate } from "../../api/kinds/sandbox-template.ts";
import { RametError } from "../../base/errors.ts";
import { volumesOfSource } from "./gather.ts";
import { withVolumes } from "./status.ts";

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

it("tells the claims whose data the checkpoint has from the others", () => {
  const volumes = ["home", "data"].map((volume) => ({ volume, claim: `${volume}-a` }));
  const part = (volume: string): CheckpointPart => ({
    backend: "csi",
    handle: "h",
    contents: ["volumes"],
    cutAt: "2026-11-24T00:00:00Z",
    sizeBytes: 1,
    consistency: "crash",
    volume: { volume, claim: `${volume}-a`, snapshot: "s", driver: "d", accessModes: [] },
  });
  const now = new Date(0);
  const one = withVolumes({ checkpoint, volumes, now }, { parts: [part("home")] });
  expect(one?.ramet.volumes).toEqual([{ volume: "data", claim: "data-a" }]);
  expect(one?.conditions[0]).toMatchObject({ status: "False", reason: "NotRequested" });
  expect(one?.conditions[0]?.message).toContain("data-a");
  const both = withVolumes({ checkpoint, volumes, now }, { parts: [part("home"), part("data")] });
  expect(both?.ramet.volumes).toBeUndefined();
  expect(both?.conditions[0]).toMatchObject({ status: "True", reason: "Captured" });
});

it("lists so many claims that the message fits into a condition", () => {
  const volumes = Array.from({ length: 300 }, (_, at) => ({ volume: `v${at}`, claim: String(at).padStart(253, "x") }));
  const now = new Date(0);
  const incomplete = withVolumes({ checkpoint, volumes, now }, { parts: [] });
  const { message = "" } = incomplete?.conditions[0] ?? {};
  expect(message).toContain("and 200 more");
  expect(message.length).toBeLessThan(32_768);
});

it("counts a volume as captured whose data is that of another sandbox's claim", () => {
  const volume = { volume: "home", claim: "home-a", snapshot: "s", driver: "d", accessModes: [] };
  const part = { backend: "csi", handle: "h", cutAt: "", sizeBytes: 1, volume } as const;
  const parts: CheckpointPart[] = [{ ...part, contents: ["volumes"], consistency: "crash" }];
  const clone = { checkpoint, volumes: [{ volume: "home", claim: "home-clone" }], now: new Date(0) };
  expect(withVolumes(clone, { parts })?.conditions).toMatchObject([{ type: "VolumesCaptured", status: "True" }]);
});
