import { spawnSync } from "node:child_process";
import { mkdir, readFile, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { afterAll, afterEach, beforeAll, describe, expect, it } from "vitest";
import type { Checkpoint } from "../../src/api/kinds/checkpoint.ts";
import type { Sandbox } from "../../src/api/kinds/sandbox.ts";
import { findCondition } from "../../src/kube/conditions.ts";
import { namespace } from "../bench/local-cluster.ts";
import { ClusterWorld, type StoreMount } from "./cluster-world.ts";

const apiVersion = "agents.kruise.io/v1alpha1";
const isRoot = process.getuid?.() === 0;

/** Each invalid request reports what is wrong and what to do, and does not affect another running sandbox. */
describe("bad input", () => {
  const store = new SmallStore();
  let world: ClusterWorld;
  let close: (() => Promise<void>) | undefined;
  let bystander: Sandbox;
  let captured: Checkpoint;
  let asked = 1;

  beforeAll(async () => {
    world = await ClusterWorld.open(0, { storeOn: store });
    close = () => world.close();
    bystander = await world.source("bystander");
    captured = await world.cluster.createCheckpoint("captured", "bystander");
  });
  afterAll(async () => {
    store.unmount();
    await close?.();
  });
  afterEach(async () => {
    expect(await world.count(bystander)).toBe(++asked);
    expect(await world.countInClone(`after-${asked}`, captured)).toBe(2);
  });

  function sandbox(name: string, spec: object, annotations: Record<string, string> = {}): Promise<Sandbox> {
    const metadata = { name, namespace, annotations };
    return world.cluster.cluster.sandboxes.create({ apiVersion, kind: "Sandbox", metadata, spec });
  }

  /** Waits until the Sandbox's Ready condition is False with a message that contains `text`. */
  async function readyFailureOf(
    requested: Sandbox,
    text = "",
  ): Promise<{ phase: string; reason: string; message: string }> {
    const { status } = await world.cluster.until(world.cluster.cluster.sandboxes, requested, (seen) => {
      const ready = findCondition(seen?.status?.conditions, "Ready");
      return ready?.status === "False" && ready.message !== "" && ready.message.includes(text);
    });
    const ready = findCondition(status?.conditions, "Ready");
    console.log(`bad input: ${status?.phase ?? ""} ${ready?.reason ?? ""}: ${ready?.message ?? ""}`);
    return { phase: status?.phase ?? "", reason: ready?.reason ?? "", message: ready?.message ?? "" };
  }

  async function failureOf(name: string, sandboxName: string): Promise<string> {
    const done = await world.cluster.untilFinished(await world.cluster.requestCheckpoint(name, sandboxName));
    console.log(`bad input: checkpoint ${done.status?.phase ?? ""}: ${done.status?.message ?? ""}`);
    expect(done.status?.phase).toBe("Failed");
    return done.status?.message ?? "";
  }

  const removeSandbox = (one: Sandbox): Promise<void> => world.cluster.remove(world.cluster.cluster.sandboxes, one);

  it("waits for a template that does not exist, and names it in the condition", async () => {
    const requested = await sandbox("no-template", { templateRef: { name: "absent" } });
    const { phase, message } = await readyFailureOf(requested);
    expect(phase).toBe("Pending");
    expect(message).toContain("absent");
    await removeSandbox(requested);
  });

  it("fails a clone of an unknown checkpoint id, and names the command that lists ids", async () => {
    const requested = await world.cluster.requestSandbox({ name: "no-checkpoint", checkpointId: "never-captured" });
    const { phase, reason, message } = await readyFailureOf(requested);
    expect([phase, reason]).toEqual(["Failed", "NotFound"]);
    expect(message).toContain("never-captured");
    expect(message).toContain("ramet checkpoint ls");
    await removeSandbox(requested);
  });

  it("names an image that the node does not have, and fails a checkpoint of its Pod", async () => {
    const requested = await world.cluster.requestSandbox({ name: "no-image", image: "registry.invalid/nothing:1" });
    const { phase, message } = await readyFailureOf(requested);
    expect(phase).toBe("Pending");
    expect(message).toContain("registry.invalid/nothing:1");
    expect(await failureOf("of-no-image", "no-image")).toContain("no-image");
    await removeSandbox(requested);
  });

  it("fails a clone whose template differs from the checkpoint's, and names the field", async () => {
    const { checkpointId = "" } = captured.status ?? {};
    const requested = await world.cluster.requestSandbox({ name: "mismatch", checkpointId, command: ["sleep", "1"] });
    const { phase, reason, message } = await readyFailureOf(requested);
    expect([phase, reason]).toEqual(["Failed", "TemplateMismatch"]);
    expect(message).toContain("command");
    await removeSandbox(requested);
  });

  it("fails a second checkpoint of a sandbox while one runs, and names the first, which succeeds", async () => {
    const big = await world.cluster.createSandbox({ name: "busy", sizeMiB: 16 });
    const [first, second] = await Promise.all(
      ["first", "second"].map((name) => world.cluster.requestCheckpoint(name, "busy")),
    );
    const done = await Promise.all([first!, second!].map((requested) => world.cluster.untilFinished(requested)));
    const failed = done.filter(({ status }) => status?.phase === "Failed");
    console.log(`bad input: ${failed[0]?.status?.message ?? ""}`);
    expect(done.map(({ status }) => status?.phase).toSorted()).toEqual(["Failed", "Succeeded"]);
    expect(failed[0]?.status?.message).toContain(failed[0]?.metadata.name === "first" ? "second" : "first");
    await removeSandbox(big);
  });

  it.each([
    ["a TTL that is not a duration", { ttlAfterFinished: "soon" }, /ttlAfterFinished/],
    ["memory without the file system", { persistentContents: ["memory"] }, /persistentContents/],
    ["no source", { sandboxName: null }, /podName|sandboxName/],
  ])("has the API server reject %s with the name of the field", async (_, spec, message) => {
    await expect(world.cluster.requestCheckpoint("refused", "bystander", spec)).rejects.toThrow(message);
  });

  it("rejects a name that is not a DNS label", async () => {
    await expect(world.cluster.requestSandbox({ name: "Not_A_Label" })).rejects.toThrow(/Not_A_Label|name/);
  });

  it.runIf(isRoot)(
    "fails a checkpoint into a read-only store, and captures one once the store is writable",
    async () => {
      store.remount("ro");
      try {
        expect(await failureOf("read-only", "bystander")).toMatch(/read-only|not writable/);
      } finally {
        store.remount("rw");
      }
      await world.cluster.createCheckpoint("writable-again", "bystander");
    },
  );

  it.runIf(isRoot)(
    "fails a checkpoint into a full store with the reason, and captures one once there is room",
    async () => {
      const filler = join(world.cluster.directory.store, "filler");
      await writeFile(filler, Buffer.alloc(store.sizeBytes)).catch(() => undefined);
      try {
        expect(await failureOf("full", "bystander")).toMatch(/full|room|no space/);
      } finally {
        await rm(filler);
      }
      await world.cluster.createCheckpoint("room-again", "bystander");
    },
  );

  it("names a missing runsc", async () => {
    const { setting } = world.cluster.directory;
    const before = await readFile(setting, "utf8");
    const broken = JSON.parse(before) as { tools: Record<string, string> };
    broken.tools["runsc"] = "/nowhere/runsc";
    await writeFile(setting, JSON.stringify(broken));
    await restartNode(world);
    const requested = await world.cluster.requestSandbox({ name: "no-runsc" });
    try {
      // When the start is slow, the condition first reports that it waits.
      const { phase } = await readyFailureOf(requested, "/nowhere/runsc");
      expect(phase).toBe("Failed");
    } finally {
      await writeFile(setting, before);
      await restartNode(world);
      await removeSandbox(requested);
    }
  });
});

/** Kills the node and waits for a new one: for a moment, the status still has the pid of the killed one. */
async function restartNode(world: ClusterWorld): Promise<void> {
  const killed = world.cluster.part("node");
  await world.kill("node", "");
  await expect.poll(() => world.cluster.part("node")).not.toBe(killed);
  await world.untilHealthy();
}

/** Mounts a small file system for the store, if this user is root. Cells see it, and its state, in any mount namespace. */
class SmallStore implements StoreMount {
  readonly sizeBytes = 64 * 2 ** 20;
  #path: string | undefined;

  async mountAt(path: string): Promise<void> {
    if (!isRoot) return;
    await mkdir(path, { recursive: true });
    this.#mount("-t", "tmpfs", "-o", `size=${this.sizeBytes},mode=700`, "ramet-test", path);
    this.#path = path;
  }

  /** Changes the file system, not only this mount of it: other mount namespaces have their own mounts. */
  remount(access: "ro" | "rw"): void {
    this.#mount("-o", `remount,${access},size=${this.sizeBytes}`, this.#path ?? "");
  }

  unmount(): void {
    if (this.#path !== undefined) spawnSync("umount", ["--lazy", this.#path]);
    this.#path = undefined;
  }

  #mount(...args: string[]): void {
    const { status, stderr } = spawnSync("mount", args, { encoding: "utf8" });
    if (status !== 0) throw new Error(`mount ${args.join(" ")}: ${stderr}`);
  }
}
