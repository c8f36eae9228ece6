import { rename } from "node:fs/promises";
import { join } from "node:path";
import { afterAll, afterEach, beforeAll, describe, expect, it } from "vitest";
import { csiBackend } from "../../../src/backends/csi/csi-backend.ts";
import type { VolumeSnapshotRequest } from "../../../src/api/kinds/checkpoint-spec.ts";
import type { Backend, CheckpointName } from "../../../src/backends/backend.ts";
import type { SandboxRef } from "../../../src/backends/runtime.ts";
import {
  snapshotClassesIn,
  snapshotContentsIn,
  snapshotsIn,
  groupKindsOf,
} from "../../../src/kube/volumes/snapshots.ts";
import { makeNamespace } from "../../setup/namespace.ts";
import { VolumeClaims } from "../../setup/volume-claims.ts";
import { startVolumeCluster, type VolumeCluster } from "../../setup/volume-cluster.ts";
import { type BackendHarness, testBackend } from "./backend-contract.ts";

/** The real backend, driver and snapshot-controller. A sandbox is its claims: no Pod runs, so it runs while they are bound. */
const namespace = "contract";
/** A capture takes less than a second. The test of a failed one waits for this. */
const captureMilliseconds = 15_000;
let cluster: VolumeCluster;
let claims: VolumeClaims;
let backend: Backend;
let count = 0;

beforeAll(async () => {
  cluster = await startVolumeCluster();
  await makeNamespace(cluster.client, namespace);
  claims = new VolumeClaims(cluster, namespace);
  backend = csiBackend({ client: cluster.client, captureMilliseconds });
});
afterAll(() => cluster.stop());
afterEach(resume);

/** The volumes of a sandbox. Its claims have names like `data-s1`. */
type Volumes = readonly [string, ...string[]];

function newRef(volumes: Volumes): SandboxRef {
  const name = `s${++count}`;
  const claims = volumes.map((volume) => ({ volume, claim: `${volume}-${name}` }));
  return { namespace, name, uid: `uid-${name}`, podIp: "", claims };
}
const claimsOf = ({ claims }: SandboxRef): string[] => claims.map(({ claim }) => claim);

function resume(): void {
  process.kill(cluster.driver.process.pid, "SIGCONT");
}

/** Where the driver makes a volume or a snapshot before it renames it. */
const making = (): string => join(cluster.driver.directory, "making");

const harnessOf = (volumes: Volumes): BackendHarness => ({
  backend,
  restoresInPlace: false,
  source: async () => {
    const sandbox = newRef(volumes);
    for (const claim of claimsOf(sandbox)) {
      await claims.create(claim);
      await claims.untilBound(claim);
    }
    return sandbox;
  },
  target: () => Promise.resolve(newRef(volumes)),
  prepare: async ({ name, parts, target }) => {
    for (const part of parts) {
      const spec = { resources: { requests: { storage: "1Mi" } } };
      const filled = await backend.fillClaim?.({ name, part, spec });
      const claim = `${part.volume?.volume ?? ""}-${target.name}`;
      await claims.create(claim, filled);
      await claims.untilBound(claim);
    }
  },
  unreachable: async () => {
    const sandbox = newRef(volumes);
    for (const claim of claimsOf(sandbox)) await claims.create(claim, { storageClassName: "" });
    return sandbox;
  },
  isRunning: async (sandbox) => (await each(sandbox, (claim) => claims.isBound(claim))).every(Boolean),
  write: async (sandbox, text) => {
    await each(sandbox, (claim) => claims.write(claim, text));
  },
  read: async (sandbox) => [...new Set(await each(sandbox, (claim) => claims.read(claim)))].join(" and "),
  hold: (sandbox) => {
    process.kill(cluster.driver.process.pid, "SIGSTOP");
    return { started: () => untilCreated(sandbox), release: resume };
  },
  breakCapture: () => rename(making(), `${making()}.away`),
  mend: () => rename(`${making()}.away`, making()),
});

function each<T>(sandbox: SandboxRef, use: (claim: string) => Promise<T>): Promise<T[]> {
  return Promise.all(claimsOf(sandbox).map(use));
}

async function untilCreated(sandbox: SandboxRef): Promise<void> {
  const [claim = ""] = claimsOf(sandbox);
  await expect
    .poll(async () => {
      const { items } = await snapshotsIn(cluster.client).list({ namespace });
      const { items: groups = [] } = (await (await groupKindsOf(cluster.client))?.groups.list({ namespace })) ?? {};
      const captured = [...items.map(({ spec }) => spec), ...groups.map(({ metadata }) => metadata.annotations)];
      return captured.map((one) => JSON.stringify(one)).join();
    })
    .toContain(claim);
}

describe("one volume", () => {
  testBackend(() => harnessOf(["data"]));
});

describe("two volumes of one driver", () => {
  testBackend(() => harnessOf(["data", "logs"]), "g");

  it("are captured as a group", async () => {
    const { source, write } = harnessOf(["data", "logs"]);
    const sandbox = await source();
    await write(sandbox, "one");
    const name = { namespace, checkpointId: "group" };
    const { parts, details } = await backend.capture({
      name,
      source: sandbox,
      contents: ["volumes"],
      keepRunning: true,
    });
    expect(details?.groupNote).toBeUndefined();
    const [group, ...others] = new Set(parts.map(({ volume }) => volume?.groupSnapshot));
    expect([group, ...others]).toEqual([expect.stringMatching(/^ramet-group-/)]);
    expect(new Set(parts.map(({ cutAt }) => cutAt)).size).toBe(1);
  });
});

describe("a requested VolumeSnapshot", () => {
  const name = { namespace, checkpointId: "requested" };
  const capture = (source: SandboxRef, volumeSnapshot: VolumeSnapshotRequest) =>
    backend.capture({ name, source, contents: ["volumes"], keepRunning: true, volumeSnapshot });

  it("is refused with an unknown class, and nothing is created", async () => {
    const source = await harnessOf(["data"]).source();
    await expect(capture(source, { name: "a-snap-1", className: "none" })).rejects.toMatchObject({
      code: "InvalidArgument",
      message: "The VolumeSnapshotClass none does not exist",
    });
    expect(await snapshotsIn(cluster.client).find({ namespace, name: "a-snap-1" })).toBeUndefined();
  });

  it("has its name and its class, and leaves no data when a user deletes it and then the Checkpoint is gone", async () => {
    const { items: classes } = await snapshotClassesIn(cluster.client).list();
    const className = classes.find(({ deletionPolicy }) => deletionPolicy === "Delete")?.metadata.name ?? "";
    const { parts } = await capture(await harnessOf(["data"]).source(), { name: "b-snap-1", className });
    expect(parts.map(({ volume }) => volume?.snapshot)).toEqual(["b-snap-1"]);
    await backend.whenReady(name);
    const snapshots = snapshotsIn(cluster.client);
    const made = await snapshots.get({ namespace, name: "b-snap-1" });
    expect(made.spec?.volumeSnapshotClassName).toBe(className);

    await snapshots.delete({ namespace, name: "b-snap-1" });
    await expect.poll(() => snapshots.find({ namespace, name: "b-snap-1" })).toBeUndefined();
    const sweeping = csiBackend({ client: cluster.client, sweepOlderThanMilliseconds: 0 });
    const liveness = ({ checkpointId }: CheckpointName) =>
      Promise.resolve(checkpointId === name.checkpointId ? ("absent" as const) : ("finished" as const));
    await sweeping.sweep?.(liveness, new AbortController().signal);
    const content = { name: made.status?.boundVolumeSnapshotContentName ?? "" };
    await expect.poll(() => snapshotContentsIn(cluster.client).find(content)).toBeUndefined();
  });
});
