import { stringify } from "yaml";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { SnapshotStackFacts } from "../../provider/handlers/snapshot-stack/stack-facts.ts";
import { openProgram, type ProgramWorld } from "../program/program-world.ts";
import { openWorld, type World } from "./world.ts";

const driver = "hostpath.csi.k8s.io";
const controller = ["-n", "kube-system", "deployment/snapshot-controller"];

/** Tests the external-snapshotter of a SnapshotStack on a real kubelet. No driver is installed, so no snapshot becomes ready. */
describe("a program that declares a snapshot stack", () => {
  let world: World;
  let program: ProgramWorld;

  beforeAll(async () => {
    world = await openWorld();
    await world.apply(stringify({ apiVersion: "storage.k8s.io/v1", kind: "CSIDriver", metadata: { name: driver } }));
    program = await openProgram("test/program/programs/kubelet-stack", { kubeconfig: world.kubeconfig });
  });
  afterAll(() => program.remove());

  it("runs its controllers after up, and one of them leads", async () => {
    const up = await program.engine.up();
    expect(up.succeeded, up.text).toBe(true);
    // The stand-in for Pulumi's engine does not wait for Deployments.
    await world.kubectl("rollout", "status", ...controller, "--timeout=120s");
    const lease = ["-n", "kube-system", "lease/snapshot-controller-leader"];
    const holder = await world.kubectl("get", ...lease, "-o", "jsonpath={.spec.holderIdentity}");
    expect(holder).toMatch(/^snapshot-controller-/);
    const pods = await world.kubectl("get", "pods", "-n", "kube-system", "-o", "jsonpath={..restartCount}");
    expect(pods).toBe("0 0");
  });

  it("changes nothing in another up, and finds no problem", async () => {
    const again = await program.engine.up();
    expect(again.steps.filter(({ operation }) => operation !== "same")).toEqual([]);
    const { controllers, findings } = again.outputs["facts"] as SnapshotStackFacts;
    expect(controllers).toMatchObject([{ namespacedName: "kube-system/snapshot-controller", isAvailable: true }]);
    expect(findings).toEqual([]);
  });

  it("binds a snapshot of a claim to its content with only the declared permissions", async () => {
    const claim = { apiVersion: "v1", kind: "PersistentVolumeClaim", metadata: { name: "data" } };
    const volume = { apiVersion: "v1", kind: "PersistentVolume", metadata: { name: "data" } };
    const size = { storage: "1Mi" };
    const common = { accessModes: ["ReadWriteOnce"], storageClassName: "" };
    const group = "snapshot.storage.k8s.io";
    const objects = [
      { ...volume, spec: { ...common, capacity: size, csi: { driver, volumeHandle: "one" } } },
      { ...claim, spec: { ...common, volumeName: "data", resources: { requests: size } } },
      {
        apiVersion: `${group}/v1`,
        kind: "VolumeSnapshot",
        metadata: { name: "data" },
        spec: {
          volumeSnapshotClassName: "hostpath-csi-k8s-io-clone-delete",
          source: { persistentVolumeClaimName: "data" },
        },
      },
    ];
    await world.apply(objects.map((object) => stringify(object)).join("---\n"));
    const bound = ["volumesnapshot/data", "-o", "jsonpath={.status.boundVolumeSnapshotContentName}"];
    await expect.poll(() => world.kubectl("get", ...bound), { timeout: 60_000 }).toMatch(/^snapcontent-/);
    const content = await world.kubectl("get", "volumesnapshotcontents", "-o", "jsonpath={..spec.deletionPolicy}");
    expect(content).toBe("Delete");
    expect(await world.kubectl("logs", ...controller, "--all-pods")).not.toMatch(/forbidden/i);
  });

  it("removes the controllers with destroy, and keeps CRDs and snapshots", async () => {
    const destroyed = await program.engine.destroy();
    expect(destroyed.succeeded, destroyed.text).toBe(true);
    const pods = () => world.kubectl("get", "pods", "-n", "kube-system", "-o", "name");
    await expect.poll(pods, { timeout: 60_000 }).toBe("");
    expect(await world.kubectl("get", "volumesnapshots", "-o", "name")).toMatch(/\/data/);
  });
});
