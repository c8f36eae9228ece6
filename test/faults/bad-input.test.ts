import { spawnSync } from "node:child_process";
import { mkdir, readFile, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { afterAll, afterEach, beforeAll, describe, expect, test } from "vitest";
import type { Checkpoint } from "../../src/api/kinds/checkpoint.ts";
import type { Sandbox } from "../../src/api/kinds/sandbox.ts";
import { findCondition } from "../../src/kube/conditions.ts";
import { namespace } from "../bench/local-cluster.ts";
import { ClusterWorld, type StoreMount } from "./cluster-world.ts";

const apiVersion = "agents.kruise.io/v1alpha1";
const isRoot = process.getuid?.() === 0;

/** Each wish that cannot be granted says what is wrong and what to do, and a sandbox that runs beside it never notices. */
describe("bad input", () => {
  const store = new SmallStore();
  let world: ClusterWorld;
  let bystander: Sandbox;
  let taken: Checkpoint;
  let asked = 1;

  beforeAll(async () => {
    world = await ClusterWorld.open(0, { storeOn: store });
    bystander = await world.source("bystander");
    taken = await world.cluster.createCheckpoint("taken", "bystander");
  });
  afterAll(async () => {
    store.unmount();
    await world.close();
  });
  afterEach(async () => {
    expect(await world.count(bystander)).toBe(++asked);
    expect(await world.countInClone(`after-${asked}`, taken)).toBe(2);
  });

  function sandbox(name: string, spec: object, annotations: Record<string, string> = {}): Promise<Sandbox> {
    const metadata = { name, namespace, annotations };
    return world.cluster.cluster.sandboxes.create({ apiVersion, kind: "Sandbox", metadata, spec });
  }

  /** Waits until the Sandbox says, in these words, why it is not ready. */
  async function whyNotReady(wish: Sandbox, words = ""): Promise<{ phase: string; reason: string; message: string }> {
    const told = await world.cluster.until(world.cluster.cluster.sandboxes, wish, (seen) => {
      const ready = findCondition(seen?.status?.conditions, "Ready");
      return ready?.status === "False" && ready.message !== "" && ready.message.includes(words);
    });
    const ready = findCondition(told.status?.conditions, "Ready");
    console.log(`bad input: ${told.status?.phase ?? ""} ${ready?.reason ?? ""}: ${ready?.message ?? ""}`);
    return { phase: told.status?.phase ?? "", reason: ready?.reason ?? "", message: ready?.message ?? "" };
  }

  async function failureOf(name: string, sandboxName: string): Promise<string> {
    const done = await world.cluster.untilFinished(await world.cluster.requestCheckpoint(name, sandboxName));
    console.log(`bad input: checkpoint ${done.status?.phase ?? ""}: ${done.status?.message ?? ""}`);
    expect(done.status?.phase).toBe("Failed");
    return done.status?.message ?? "";
  }

  const removeSandbox = (wish: Sandbox): Promise<void> => world.cluster.remove(world.cluster.cluster.sandboxes, wish);

  test("a template that does not exist is waited for, and the wish says so", async () => {
    const wish = await sandbox("no-template", { templateRef: { name: "absent" } });
    const { phase, message } = await whyNotReady(wish);
    expect(phase).toBe("Pending");
    expect(message).toContain("absent");
    await removeSandbox(wish);
  });

  test("an unknown checkpoint id fails the clone and says how to list ids", async () => {
    const wish = await world.cluster.requestSandbox({ name: "no-checkpoint", checkpointId: "never-taken" });
    const { phase, reason, message } = await whyNotReady(wish);
    expect([phase, reason]).toEqual(["Failed", "NotFound"]);
    expect(message).toContain("never-taken");
    expect(message).toContain("ramet checkpoint ls");
    await removeSandbox(wish);
  });

  test("an image that the node does not have is named, with what to do; a checkpoint of that Pod fails at once", async () => {
    const wish = await world.cluster.requestSandbox({ name: "no-image", image: "registry.invalid/nothing:1" });
    const { phase, message } = await whyNotReady(wish);
    expect(phase).toBe("Pending");
    expect(message).toContain("registry.invalid/nothing:1");
    expect(await failureOf("of-no-image", "no-image")).toContain("no-image");
    await removeSandbox(wish);
  });

  test("another template than the checkpoint's fails the clone and names the field", async () => {
    const { checkpointId = "" } = taken.status ?? {};
    const wish = await world.cluster.requestSandbox({ name: "mismatch", checkpointId, command: ["sleep", "1"] });
    const { phase, reason, message } = await whyNotReady(wish);
    expect([phase, reason]).toEqual(["Failed", "TemplateMismatch"]);
    expect(message).toContain("command");
    await removeSandbox(wish);
  });

  test("a second checkpoint while one runs fails and names the first, which succeeds", async () => {
    const big = await world.cluster.createSandbox({ name: "busy", sizeMiB: 16 });
    const [first, second] = await Promise.all(
      ["first", "second"].map((name) => world.cluster.requestCheckpoint(name, "busy")),
    );
    const done = await Promise.all([first!, second!].map((wish) => world.cluster.untilFinished(wish)));
    const failed = done.filter(({ status }) => status?.phase === "Failed");
    console.log(`bad input: ${failed[0]?.status?.message ?? ""}`);
    expect(done.map(({ status }) => status?.phase).toSorted()).toEqual(["Failed", "Succeeded"]);
    expect(failed[0]?.status?.message).toContain(failed[0]?.metadata.name === "first" ? "second" : "first");
    await removeSandbox(big);
  });

  test.each([
    ["a TTL that is no duration", { ttlAfterFinished: "soon" }, /ttlAfterFinished/],
    ["memory alone", { persistentContents: ["memory"] }, /persistentContents/],
    ["no source", { sandboxName: null }, /podName|sandboxName/],
  ])("%s is refused by the API server, by the field's name", async (_, spec, words) => {
    await expect(world.cluster.requestCheckpoint("refused", "bystander", spec)).rejects.toThrow(words);
  });

  test("a name that is no DNS label is refused", async () => {
    await expect(world.cluster.requestSandbox({ name: "Not_A_Label" })).rejects.toThrow(/Not_A_Label|name/);
  });

  test.runIf(isRoot)(
    "a store that cannot be written fails the checkpoint, and it can be taken afterwards",
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

  test.runIf(isRoot)(
    "a store that is full fails the checkpoint, says so, and takes it when there is room",
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

  test("a missing runsc is named, with what to do", async () => {
    const { setting } = world.cluster.directory;
    const before = await readFile(setting, "utf8");
    const broken = JSON.parse(before) as { tools: Record<string, string> };
    broken.tools["runsc"] = "/nowhere/runsc";
    await writeFile(setting, JSON.stringify(broken));
    await world.kill("node", "");
    await untilNodeIs(world);
    const wish = await world.cluster.requestSandbox({ name: "no-runsc" });
    try {
      // Slow starts say first that they wait.
      const { phase } = await whyNotReady(wish, "/nowhere/runsc");
      expect(phase).toBe("Failed");
    } finally {
      await writeFile(setting, before);
      await world.kill("node", "");
      await untilNodeIs(world);
      await removeSandbox(wish);
    }
  });
});

/** The part's pid in the status is the killed one's for a moment. */
async function untilNodeIs(world: ClusterWorld): Promise<void> {
  await expect.poll(() => world.cluster.part("node"), { interval: 20 }).toBeUndefined();
  await world.whole();
}

/** A small file system for the store, where the user may mount one: cells see it, and its state, wherever they run. */
class SmallStore implements StoreMount {
  readonly sizeBytes = 64 * 2 ** 20;
  #path: string | undefined;

  async mountAt(path: string): Promise<void> {
    if (!isRoot) return;
    await mkdir(path, { recursive: true });
    this.#mount("-t", "tmpfs", "-o", `size=${this.sizeBytes},mode=700`, "ramet-test", path);
    this.#path = path;
  }

  /** Changes the file system itself, not one mount of it: other mount namespaces have mounts of their own. */
  remount(access: "ro" | "rw"): void {
    this.#mount("-o", `remount,${access},size=${this.sizeBytes}`, this.#path ?? "");
  }

  unmount(): void {
    if (this.#path !== undefined) spawnSync("umount", ["--lazy", this.#path]);
  }

  #mount(...args: string[]): void {
    const { status, stderr } = spawnSync("mount", args, { encoding: "utf8" });
    if (status !== 0) throw new Error(`mount ${args.join(" ")}: ${stderr}`);
  }
}
