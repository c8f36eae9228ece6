import { spawn } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { parseObject } from "../../src/kube/object.ts";
import { coreResources } from "../../src/kube/resource-ref.ts";
import { snapshotClassesIn } from "../../src/kube/volumes/snapshots.ts";
import { claimsIn } from "../../src/kube/volumes/volumes.ts";
import type { Outcome } from "../setup/ramet-user.ts";
import { remainsOf } from "../volumes/remains.ts";
import { volumesWorld } from "./volumes-world.ts";

/** Starts `npm run test:volumes` as a user does, with these variables, in a process group of its own as a terminal does. */
function start(variables: Record<string, string>, ...args: string[]): { pid: number; ended: Promise<Outcome> } {
  const main = join(import.meta.dirname, "../volumes/main.ts");
  const others = Object.entries(process.env).filter(([name]) => !/^(RAMET_TEST|VITEST)/.test(name));
  const env = { ...Object.fromEntries(others), ...variables, NO_COLOR: "1" };
  const child = spawn(process.execPath, [main, ...args], { env, detached: true });
  const outcome: Outcome = { exitCode: null, stdout: "", stderr: "" };
  child.stdout.on("data", (chunk: Buffer) => (outcome.stdout += chunk.toString()));
  child.stderr.on("data", (chunk: Buffer) => (outcome.stderr += chunk.toString()));
  const ended = once(child, "close").then(() => ({ ...outcome, exitCode: child.exitCode }));
  return { pid: child.pid ?? 0, ended };
}

const suite = (variables: Record<string, string>, ...args: string[]): Promise<Outcome> =>
  start(variables, ...args).ended;

it("selects the tests of local clusters without a kubeconfig, and says how to test another one", async () => {
  const { exitCode, stdout, stderr } = await suite({}, "-t", "no test has this name");
  expect(exitCode).toBe(0);
  expect(stdout).toContain("test/cluster/captured-volumes.test.ts");
  expect(stderr).toContain("RAMET_TEST_KUBECONFIG is not set: only local clusters are tested");
});

describe("the volume suite on a local cluster", () => {
  const world = volumesWorld();
  const variables = () => ({
    RAMET_TEST_KUBECONFIG: world.kubeconfig,
    RAMET_TEST_IMAGE: "python",
    RAMET_TEST_TIMEOUT: "60",
  });

  const onlyFirst = ["-t", "captures a volume alone"];

  /** Lists the objects that the suite has left in the cluster. */
  const remains = async (): Promise<string[]> => {
    const { items } = await world.client.resource(coreResources.namespaces, parseObject).list();
    const left = items
      .filter(({ metadata }) => metadata.name.startsWith("ramet-volumes-"))
      // Nothing in a local cluster completes the deletion of a namespace.
      .map(async ({ metadata: { name, deletionTimestamp } }) => [
        ...(deletionTimestamp === undefined ? [name] : []),
        ...(await remainsOf({ client: world.client, namespace: name, timeoutSeconds: 0 })),
      ]);
    return (await Promise.all(left)).flat();
  };

  it("passes, and leaves nothing", async () => {
    const { exitCode, stdout, stderr } = await suite(variables());
    expect(exitCode, stdout + stderr).toBe(0);
    expect(stdout).toContain("6 passed");
    expect(await remains()).toEqual([]);
  });

  it("fails if Ramet chooses another class than is expected, and leaves nothing", async () => {
    const { exitCode, stdout } = await suite({ ...variables(), RAMET_TEST_SNAPSHOT_CLASS: "other" }, ...onlyFirst);
    expect(exitCode).toBe(1);
    expect(stdout).toContain("1 failed");
    expect(await remains()).toEqual([]);
  });

  it("removes what it has created when it is interrupted", async () => {
    const { pid, ended } = start(variables(), ...onlyFirst);
    const claims = async () => (await claimsIn(world.client).list()).items.length;
    await expect.poll(claims, { timeout: 60_000 }).toBeGreaterThan(0);
    process.kill(-pid, "SIGINT");
    const { exitCode, stderr } = await ended;
    expect(exitCode).not.toBe(0);
    expect(stderr).toContain("which an interrupted run has left");
    expect(await remains()).toEqual([]);
  });

  it("skips what a cluster without a VolumeSnapshotClass cannot do, and says why", async () => {
    const classes = snapshotClassesIn(world.client);
    for (const { metadata } of (await classes.list()).items) await classes.delete(metadata);
    const { exitCode, stdout, stderr } = await suite(variables());
    expect(exitCode, stdout + stderr).toBe(0);
    expect(stdout).toContain("5 skipped");
    expect(stdout).toContain("because The CSI driver local.csi.ramet.dev has no VolumeSnapshotClass");
    expect(await remains()).toEqual([]);
  });
});
