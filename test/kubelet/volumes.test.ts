import { readdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, inject, it } from "vitest";
import { sandboxWithVolume, sleeping } from "../setup/sandbox-with-volume.ts";
import { volumeScenarios } from "../volumes/scenarios.ts";
import { cellSeccompProfile } from "./node.ts";
import { imageNames } from "./images.ts";
import { removeVolumeObjects, startVolumePrograms, type VolumePrograms } from "./volume-programs.ts";
import { makeStoreSecret, openWorld, type World } from "./world.ts";

const long = { timeout: 90_000, interval: 250 };

let world: World;
let programs: VolumePrograms;
let directory: string;

beforeAll(async () => {
  world = await openWorld();
  directory = join(world.directory, "kustomization");
  programs = await startVolumePrograms();
  const address = `s3://checkpoints/volumes?endpoint=${encodeURIComponent(world.s3.endpoint)}&allow-insecure=true`;
  const images = ["--image", imageNames.controller, "--cell-image", imageNames.cell];
  const cells = ["--cell-seccomp-profile", cellSeccompProfile];
  await world.ramet("manifests", ...images, ...cells, "--store", address, "--store-secret", "s3", "--out", directory);
  await world.kubectl("apply", "-f", join(directory, "namespace.yaml"));
  await makeStoreSecret(world);
  await world.kubectl("apply", "-k", directory);
  await world.kubectl("rollout", "status", "-n", "ramet-system", "deployment/ramet-controller", "--timeout=120s");
});
afterAll(async () => {
  await world.kubectl("delete", "sandbox,checkpoint", "--all", "--wait=true");
  await world.kubectl("delete", "-f", join(directory, "deployment.yaml"));
  await programs.stop();
  await removeVolumeObjects(world);
});

/** Where the kubelet has mounted volumes of CSI drivers for Pods, in the mount namespace of the node. */
async function mounted(): Promise<string[]> {
  const mounts = (await readFile("/proc/self/mountinfo", "utf8")).split("\n").map((line) => line.split(" ")[4] ?? "");
  return mounts.filter((path) => path.includes("/volumes/kubernetes.io~csi/"));
}

/** Tests the driver with a real kubelet, containerd and runc. external-provisioner has a stand-in: the one of local clusters. */
describe("the CSI driver with a kubelet", () => {
  const data = (name: string): Promise<string> => world.inSandbox(name, "cat /data/note");
  const field = (what: string, path: string): Promise<string> => world.kubectl("get", what, "-o", `jsonpath=${path}`);

  it("is registered by the kubelet, which then knows where its volumes can be used", async () => {
    const drivers = () => field("csinode/node-a", "{.spec.drivers[*].name}/{.spec.drivers[*].topologyKeys[*]}");
    await expect.poll(drivers, long).toBe("local.csi.ramet.dev/topology.local.csi.ramet.dev/node");
    expect(await readFile(programs.driver.log, "utf8")).toContain("the kubelet has registered the driver");
  });

  it("has its volume mounted into a sandbox, with the data in the driver's directory", async () => {
    await world.apply(sandbox("m"));
    await expect
      .poll(() => world.inSandbox("m", "echo one > /data/note; uname -r").catch(String), long)
      .toMatch(/gvisor/);
    const uid = await field("pod/m", "{.metadata.uid}");
    const volume = await field("pvc/data-m", "{.spec.volumeName}");
    const at = join(inject("cluster").dir, "kubelet/pods", uid, "volumes/kubernetes.io~csi", volume, "mount");
    expect(await mounted()).toEqual([at]);
    const handle = await field(`pv/${volume}`, "{.spec.csi.volumeHandle}");
    expect(await readFile(join(programs.driver.directory, "volumes", handle, "data/note"), "utf8")).toBe("one\n");
  });

  it("may be killed while a sandbox uses a volume, and serves the kubelet when it runs again", async () => {
    await programs.restartDriver();
    expect(await world.inSandbox("m", "echo two > /data/note; cat /data/note")).toBe("two");
    await world.apply(sandbox("n"));
    await expect
      .poll(() => world.inSandbox("n", "echo three > /data/note; cat /data/note").catch(String), long)
      .toBe("three");
  });

  it("has its volume unmounted by a pause, and mounted again by a resume", async () => {
    await world.ramet("sandbox", "rm", "n");
    await world.ramet("sandbox", "pause", "m");
    await expect.poll(mounted, long).toEqual([]);
    await world.ramet("sandbox", "resume", "m");
    expect(await data("m")).toBe("two");
    expect(await mounted()).toHaveLength(1);
  });

  it("has its volume mounted into the next Pod of an evicted sandbox, also if the driver is killed meanwhile", async () => {
    const before = await field("sandbox/m", "{.status.podInfo.podUID}");
    await world.kubectl("delete", "pod", "m", "--wait=false");
    await programs.restartDriver();
    const moved = () => field("sandbox/m", "{.status.podInfo.podUID} {.status.phase}");
    await expect.poll(moved, long).toMatch(new RegExp(`^(?!${before}).* Running$`));
    expect(await field("sandbox/m", "{.status.ramet.disruption.outcome}")).toBe("Migrated");
    expect(await data("m")).toBe("two");
    expect(await mounted()).toHaveLength(1);
  });

  it("keeps nothing mounted and no data of deleted sandboxes", async () => {
    await world.ramet("sandbox", "rm", "m");
    await expect.poll(mounted, long).toEqual([]);
    await expect.poll(() => readdir(join(programs.driver.directory, "volumes")), long).toEqual([]);
    await expect.poll(() => world.kubectl("get", "pv,pvc", "-o", "name"), long).toBe("");
  });

  const sandbox = (name: string): string =>
    JSON.stringify({
      apiVersion: "agents.kruise.io/v1alpha1",
      kind: "Sandbox",
      metadata: { name, namespace: "default" },
      spec: sandboxWithVolume(sleeping, { image: imageNames.python }),
    });
});

volumeScenarios(() => ({
  kubeconfig: world.kubeconfig,
  namespace: "volumes",
  image: imageNames.python,
  execOptions: ["--direct"],
  timeoutSeconds: 120,
}));

it("leaves nothing mounted and no data", async () => {
  await expect.poll(mounted, long).toEqual([]);
  for (const kind of ["volumes", "snapshots"]) expect(await readdir(join(programs.driver.directory, kind))).toEqual([]);
});
