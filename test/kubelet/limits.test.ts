import { constants, existsSync, globSync } from "node:fs";
import { access, readFile } from "node:fs/promises";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { imageNames } from "./images.ts";
import { cellSeccompProfile } from "./node.ts";
import { processesOf } from "./pod-processes.ts";
import { makeStoreSecret, openWorld, type World } from "./world.ts";

const long = { timeout: 90_000, interval: 250 };

const isVersion1 = existsSync("/sys/fs/cgroup/memory/memory.stat");

/** Tests the limits of a template in Pods of a real kubelet, with version 1 of control groups. */
describe.runIf(isVersion1)("limits of a sandbox in a Pod", () => {
  let world: World;
  let directory: string;

  beforeAll(async () => {
    world = await openWorld();
    directory = join(world.directory, "kustomization");
    const address = `s3://checkpoints/limits?endpoint=${encodeURIComponent(world.s3.endpoint)}&allow-insecure=true`;
    const images = ["--image", imageNames.controller, "--cell-image", imageNames.cell];
    // In a user namespace, cells cannot create control groups.
    const cells = ["--cell-seccomp-profile", cellSeccompProfile, "--cell-user-namespaces", "never"];
    await world.ramet("manifests", ...images, ...cells, "--store", address, "--store-secret", "s3", "--out", directory);
    await world.kubectl("apply", "-f", join(directory, "namespace.yaml"));
    await makeStoreSecret(world);
    await world.kubectl("apply", "-k", directory);
    await world.kubectl("rollout", "status", "-n", "ramet-system", "deployment/ramet-controller", "--timeout=120s");
  });
  afterAll(async () => {
    await world.kubectl("delete", "sandbox", "--all", "--wait=true");
    await world.kubectl("delete", "-f", join(directory, "deployment.yaml"));
  });

  const condition = (name: string, path = "message") =>
    world.kubectl("get", "sandbox", name, "-o", `jsonpath={.status.conditions[?(@.type=="Ready")].${path}}`);

  async function hold(name: string, mebibytes: number): Promise<void> {
    const program = `a = bytearray(${mebibytes} * 2**20)
for i in range(0, len(a), 4096): a[i:i+4] = (i // 4096 + 1).to_bytes(4, "big")
open("/held", "w")
import time
time.sleep(1000)`;
    await world.inSandbox(name, `python3 -c '${program}' >/dev/null 2>&1 & until [ -e /held ]; do sleep 0.1; done`);
  }

  it("shows what the cell needs in the Pod's resources, on top of the template's", async () => {
    await world.apply(template("half", { limits: { cpu: "1", memory: "512Mi" }, requests: { cpu: "50m" } }));
    await world.ramet("sandbox", "create", "--template", "half", "--name", "near");
    const shown = await world.kubectl("get", "pod", "near", "-o", "jsonpath={.spec.containers[0].resources}");
    expect(JSON.parse(shown)).toEqual({
      limits: { cpu: "1100m", memory: "640Mi" },
      requests: { cpu: "50m", memory: "640Mi" },
    });
    expect(await world.kubectl("logs", "near")).not.toContain("not enforced");
  });

  it.each([420, 30])("checkpoints a sandbox of 512Mi that holds %d MiB more, and it keeps running", async (more) => {
    await hold("near", more);
    const id = await world.ramet("checkpoint", "create", "near");
    expect(await world.inSandbox("near", "echo $((6 * 7))")).toBe("42");
    expect(await condition("near", "status")).toBe("True");
    expect(id).not.toBe("");
  });

  it("clones a sandbox that is near its limit", async () => {
    const id = await world.ramet("checkpoint", "create", "near");
    await world.ramet("sandbox", "create", "--from", id, "--name", "near-clone");
    expect(await world.inSandbox("near-clone", "echo $((6 * 7))")).toBe("42");
    await world.ramet("sandbox", "rm", "near-clone");
  });

  it("captures files alone of a sandbox whose memory would not fit twice, and the sandbox keeps running", async () => {
    const limits = { limits: { memory: "512Mi" }, requests: { memory: "64Mi" } };
    await world.apply(template("exact", limits, { "ramet.dev/cell-overhead": "none" }));
    await world.ramet("sandbox", "create", "--template", "exact", "--name", "exact");
    await hold("exact", 300);
    await world.ramet("checkpoint", "create", "exact", "--contents", "filesystem");
    expect(await world.inSandbox("exact", "echo $((6 * 7))")).toBe("42");
    await world.ramet("sandbox", "rm", "exact");
  });

  it("clones and resumes files alone that are nearly as large as the memory limit", async () => {
    await world.ramet("sandbox", "create", "--template", "half", "--name", "filed");
    const digestIn = (name: string) => world.inSandbox(name, "sha256sum < /root/file");
    await world.inSandbox("filed", "head -c 400M /dev/urandom > /root/file");
    const digest = await digestIn("filed");
    await expectGofer(await world.kubectl("get", "pod", "filed", "-o", "jsonpath={.metadata.uid}"));
    const id = await world.ramet("checkpoint", "create", "filed", "--contents", "filesystem");
    const paused = await world.kubectl(
      "get",
      "checkpoint",
      "-o",
      `jsonpath={.items[?(@.status.checkpointId=="${id.trim()}")].status.ramet.pausedMilliseconds}`,
    );
    console.log(`400 MiB of files: paused for ${paused} ms`);
    await world.ramet("sandbox", "create", "--from", id.trim(), "--name", "filed-clone");
    expect(await digestIn("filed-clone")).toBe(digest);
    await world.ramet("sandbox", "rm", "filed-clone");
    const keep = JSON.stringify({ spec: { persistentContents: ["filesystem"] } });
    await world.kubectl("patch", "sandbox", "filed", "--type=merge", "-p", keep);
    await world.ramet("sandbox", "pause", "filed");
    await world.ramet("sandbox", "resume", "filed");
    expect(await digestIn("filed")).toBe(digest);
    await world.ramet("sandbox", "rm", "filed");
  });

  it("says that a sandbox exceeded its memory limit", async () => {
    await world.ramet("sandbox", "create", "--template", "half", "--name", "hog");
    const lost = await hold("hog", 600).then(() => "", String);
    expect(lost).toContain("exceeded its memory limit of 512Mi");
    expect(lost).toContain("[OutOfMemory]");
    await expect.poll(() => condition("hog"), long).toContain("exceeded its memory limit of 512Mi");
    expect(await condition("hog", "reason")).toBe("OutOfMemory");
    expect(await world.ramet("explain", "sandbox/hog").catch(String)).toContain("limits.memory");
    await world.ramet("sandbox", "rm", "hog");
  });

  it("starts a sandbox with a tenth of a CPU about as fast as one with a whole CPU, and then limits it", async () => {
    const requests = { cpu: "10m" };
    await world.apply(template("tenth", { limits: { cpu: "100m" }, requests }));
    await world.apply(template("whole-cpu", { limits: { cpu: "1" }, requests }));
    const started = async (name: string): Promise<number> => {
      await world.kubectl("delete", "sandbox", `cpu-${name}`, "--ignore-not-found", "--wait=true");
      const since = performance.now();
      await world.ramet("sandbox", "create", "--template", name, "--name", `cpu-${name}`);
      return performance.now() - since;
    };
    const times: Record<"tenth" | "whole-cpu", number[]> = { tenth: [], "whole-cpu": [] };
    for (let round = 0; round < 5; round++) {
      times.tenth.push(await started("tenth"));
      times["whole-cpu"].push(await started("whole-cpu"));
    }
    const median = (list: number[]): number => list.sort((one, other) => one - other)[2] ?? Infinity;
    // With the template's limit for the whole container, it takes three times as long.
    expect(median(times.tenth)).toBeLessThan(2 * median(times["whole-cpu"]));
    const uid = await world.kubectl("get", "sandbox", "cpu-tenth", "-o", "jsonpath={.metadata.uid}");
    const [quota, ...others] = globSync(`/sys/fs/cgroup/cpu/**/ramet/${uid}/sandbox/cpu.cfs_quota_us`);
    expect(others).toEqual([]);
    expect(await readFile(quota ?? "", "utf8")).toBe("10000\n");
  });
});

/** Expects that a Pod's cell has the program that shares blocks of the disk: test/contract/cell/shared-blocks.test.ts. */
async function expectGofer(uid: string): Promise<void> {
  const [cell = ""] = await processesOf(uid, "cell.cjs");
  const environment = (await readFile(`/proc/${cell}/environ`, "utf8")).split("\0");
  expect(environment).toContain("RAMET_SIDE_PROGRAMS=/usr/local/bin/gvisor-bin");
  await access(`/proc/${cell}/root/usr/local/bin/gvisor-bin/checkpointgofer`, constants.X_OK);
}

function template(name: string, resources: object, annotations: Record<string, string> = {}): string {
  return JSON.stringify({
    apiVersion: "agents.kruise.io/v1alpha1",
    kind: "SandboxTemplate",
    metadata: { name, namespace: "default" },
    spec: {
      template: {
        metadata: { annotations },
        spec: {
          terminationGracePeriodSeconds: 1,
          containers: [{ name: "sandbox", image: imageNames.python, command: ["sleep", "infinity"], resources }],
        },
      },
    },
  });
}
