import { Sandbox, SandboxNotFoundError, Template } from "e2b";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { ClientApiProcess } from "../setup/client-api-process.ts";
import { ClientWorld } from "./client-world.ts";

/**
 * Two replicas of the client API, between which a load balancer switches with each request: what one of them has written, the
 * other must know immediately. E2B's current JavaScript SDK, unmodified, over a real local cluster.
 */
let world: ClientWorld;
let second: ClientApiProcess;
let one: Awaited<ReturnType<ClientWorld["connection"]>>;
let other: typeof one;

beforeAll(async () => {
  world = await ClientWorld.shared("replicas");
  second = await ClientApiProcess.start(world.cluster.directory.kubeconfig);
  one = await world.connection();
  other = { ...one, apiUrl: second.url };
});
afterAll(async () => {
  await second.close();
  await world.close();
});

const rounds = 5;

describe("two replicas of the client API", () => {
  it("know the sandboxes and snapshots of each other", async () => {
    for (let round = 0; round < rounds; round++) {
      const source = await Sandbox.create("python", one);
      await source.files.write("/round", `${round}`);
      const { snapshotId } = await Sandbox.createSnapshot(source.sandboxId, other);
      const clone = await Sandbox.create(snapshotId, one);
      expect(await clone.files.read("/round")).toBe(`${round}`);
      const named = await Sandbox.createSnapshot(clone.sandboxId, { ...one, name: "moved" });
      const last = await Sandbox.create(named.snapshotId, other);
      expect(await last.files.read("/round")).toBe(`${round}`);
      await Sandbox.pause(last.sandboxId, one);
      const connected = await Sandbox.connect(last.sandboxId, other);
      expect(await connected.files.read("/round")).toBe(`${round}`);
      await Sandbox.setTimeout(last.sandboxId, 600_000, one);
      expect(await Sandbox.pause(last.sandboxId, other)).toBe(true);
      expect(await Sandbox.pause(last.sandboxId, one)).toBe(false);
      await Sandbox.connect(last.sandboxId, one);
      const later = await Sandbox.createSnapshot(last.sandboxId, other);
      expect(await Sandbox.deleteSnapshot(later.snapshotId, other)).toBe(true);
      expect(await Sandbox.deleteSnapshot(later.snapshotId, other)).toBe(false);
      for (const { sandboxId } of [source, clone, last]) {
        expect(await Promise.all([one, other].map((replica) => Sandbox.kill(sandboxId, replica)))).toContain(true);
        await expect(Sandbox.getInfo(sandboxId, one)).rejects.toThrow(SandboxNotFoundError);
      }
    }
  });

  it("know the templates and tags of each other", async () => {
    for (let round = 0; round < rounds; round++) {
      const template = Template().fromTemplate("python").runCmd(`echo ${round} >/built`);
      await Template.build(template, `tagged:v${round}`, round % 2 === 0 ? one : other);
      await Template.assignTags(`tagged:v${round}`, ["stable"], round % 2 === 0 ? other : one);
      for (const [name, replica] of [
        ["tagged:stable", other],
        [`tagged:v${round}`, one],
        ["tagged", other],
      ] as const) {
        const sandbox = await Sandbox.create(name, replica);
        expect(await sandbox.files.read("/built"), name).toBe(`${round}\n`);
        await sandbox.kill();
      }
    }
    await Template.removeTags("tagged", "stable", one);
    expect((await Template.getTags("tagged", one)).map(({ tag }) => tag)).not.toContain("stable");
    await expect(Sandbox.create("tagged:stable", one)).rejects.toThrow("tagged:stable");
  });
});
