import { expect, it } from "vitest";
import { groupLabel } from "../../src/api/names/labels.ts";
import { snapshotContentsIn, snapshotsIn, groupKindsOf } from "../../src/kube/volumes/snapshots.ts";
import { claimsIn } from "../../src/kube/volumes/volumes.ts";
import { comparing as comparingOne, sandboxWithVolume, violate, violations } from "../setup/sandbox-with-volume.ts";
import { volumesWorld } from "./volumes-world.ts";

const world = volumesWorld();
const namespace = "default";

/**
 * Writes each number first into one volume, then into the other, as fast as it can, and compares them with its memory before. They
 * differ only if the program was restored with a volume of another moment.
 */
const comparing = `
import os
files = [os.open(path, os.O_RDWR | os.O_CREAT) for path in ('/data/count', '/logs/count')]
n = 0
for fd in files: os.pwrite(fd, b'%020d' % n, 0)
while True:
    found = [int(os.pread(fd, 20, 0)) for fd in files]
    if found != [n, n]:
        open('/tmp/violation', 'a').write(f'memory {n}, volumes {found}\\n')
        n = max(found)
    n += 1
    for fd in files: os.pwrite(fd, b'%020d' % n, 0)
`;

const volumes = ["data", "logs"];
const sandbox = {
  template: {
    spec: {
      containers: [
        {
          name: "main",
          image: "python",
          command: ["python3", "-c", comparing],
          volumeMounts: volumes.map((name) => ({ name, mountPath: `/${name}` })),
        },
      ],
    },
  },
  volumeClaimTemplates: volumes.map((name) => ({
    metadata: { name },
    spec: { accessModes: ["ReadWriteOnce"], resources: { requests: { storage: "1Gi" } } },
  })),
};

const countIn = async (claim: string): Promise<number> => Number(await world.readVolume(claim, "count"));

it("captures two volumes of one driver as a group, clones both, and removes the group with the Checkpoint", async () => {
  await world.create("Sandbox", "a", sandbox);
  await world.untilRunning("a");
  await expect.poll(() => countIn("logs-a")).toBeGreaterThan(0);
  const { metadata, status } = await world.capture("a", "--contents", "volumes");
  const { parts = [], groupConsistency, groupNote } = status?.ramet ?? {};
  expect({ groupConsistency, groupNote }).toEqual({ groupConsistency: "group", groupNote: undefined });
  const id = status?.checkpointId ?? "";
  const [group, ...others] = new Set(parts.map(({ volume }) => volume?.groupSnapshot));
  expect([group, ...others]).toEqual([expect.stringContaining(id)]);
  const labelled = await claimsIn(world.client).list({ namespace, labelSelector: groupLabel(id) });
  expect(labelled.items).toEqual([]);

  await world.clone("b", "--from", id);
  for (const claim of ["data-b", "logs-b"]) {
    const { spec } = await claimsIn(world.client).get({ namespace, name: claim });
    expect(spec.dataSource?.name).toMatch(/^snapshot-/);
  }

  await world.checkpoints.delete(metadata);
  const kinds = (await groupKindsOf(world.client))!;
  const left = async () =>
    [
      await kinds.groups.list(),
      await kinds.contents.list(),
      await snapshotsIn(world.client).list(),
      await snapshotContentsIn(world.client).list(),
    ].flatMap(({ items }) => items.map(({ metadata: { name } }) => name));
  await expect.poll(left, { timeout: 60_000 }).toEqual([]);
});

it("captures memory and both volumes at one moment with atomic, which takes the group in the pause", async () => {
  const { status } = await world.capture("a", "--contents", "memory,filesystem,volumes", "--require-atomic");
  expect(status?.ramet).toMatchObject({ consistency: "atomic", groupConsistency: "group" });
  await world.clone("c", "--from", status?.checkpointId ?? "");
  const first = await countIn("logs-c");
  expect(first).toBeGreaterThan(0);
  await expect.poll(() => countIn("logs-c")).toBeGreaterThan(first);
  expect(await world.shell("c", "cat /tmp/violation 2> /dev/null || true")).toBe("");
});

const found = (sandbox: string): Promise<string> => world.shell(sandbox, violations);

it("captures memory and volume at one moment with atomic, while a program writes at full speed", async () => {
  // Their programs use all of the CPU too.
  for (const name of ["a", "b", "c"]) await world.sandboxes.delete({ namespace, name });
  await world.create("Sandbox", "w", sandboxWithVolume(comparingOne));
  await world.untilRunning("w");
  for (let round = 0; round < 5; round++) {
    const { status } = await world.capture("w", "--contents", "memory,filesystem,volumes", "--consistency", "atomic");
    const { ramet: record, checkpointId = "" } = status ?? {};
    expect(record).toMatchObject({ consistency: "atomic" });
    expect(record?.consistencyNote).toBeUndefined();
    expect(record?.pausedMilliseconds).toBeGreaterThan(0);
    const name = `atomic-${round}`;
    await world.clone(name, "--from", checkpointId);
    expect(await found(name)).toBe("");
    await world.sandboxes.delete({ namespace, name });
  }
  expect(await found("w")).toBe("");
  // The program would notice a volume of another moment.
  const noticed = () => world.shell("w", violate).then(() => found("w"));
  await expect.poll(noticed, { timeout: 20_000 }).toMatch(/^memory \d+, volume 1$/m);
});
