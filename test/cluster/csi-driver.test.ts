import { execFileSync } from "node:child_process";
import { mkdirSync, readdirSync, statSync } from "node:fs";
import { appendFile, mkdtemp, readFile, rm, symlink, truncate, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, afterEach, beforeAll, describe, expect, it } from "vitest";
import { csiClient, mountCapability, type TestCsiClient } from "../setup/csi-client.ts";
import { type CsiDriver, startCsiDriver } from "../setup/csi-driver.ts";

const isRoot = process.getuid?.() === 0;
const gibibyte = 1024 ** 3;

interface Group {
  groupSnapshotId: string;
  snapshots: { snapshotId: string; sourceVolumeId: string; creationTime: object }[];
}

/** A driver, its client, and what tests do with both. */
class World {
  readonly dir: string;
  readonly directory: string;
  #driver?: CsiDriver;
  #client?: TestCsiClient;

  constructor(dir: string, directory = join(dir, "driver")) {
    this.dir = dir;
    this.directory = directory;
  }

  async start(): Promise<void> {
    this.#driver = await startCsiDriver(this.dir, this.directory);
    this.#client = csiClient(this.#driver.endpoint);
  }

  async kill(): Promise<void> {
    this.#client?.close();
    await this.#driver?.process.kill();
  }

  get client(): TestCsiClient {
    if (this.#client === undefined) throw new Error("the driver is not started");
    return this.#client;
  }

  async volume(name: string, from: object = {}): Promise<string> {
    return (await this.client.createVolume({ name, volumeCapabilities: [mountCapability], ...from })).volumeId;
  }

  async snapshot(name: string, sourceVolumeId: string): Promise<string> {
    return (await this.client.createSnapshot({ name, sourceVolumeId })).snapshotId;
  }

  async group(name: string, sourceVolumeIds: readonly string[]): Promise<Group> {
    const response = await this.client.call("CreateVolumeGroupSnapshot", { name, sourceVolumeIds });
    return (response as { groupSnapshot: Group }).groupSnapshot;
  }

  data(volumeId: string, ...names: string[]): string {
    return join(this.directory, "volumes", volumeId, "data", ...names);
  }
}

const fromSnapshot = (snapshotId: string) => ({ volumeContentSource: { snapshot: { snapshotId } } });
const fromVolume = (volumeId: string) => ({ volumeContentSource: { volume: { volumeId } } });

let dir: string;
let world: World;
beforeAll(async () => {
  dir = await mkdtemp(join(tmpdir(), "ramet-csi-"));
  world = new World(dir);
  await world.start();
});
afterAll(async () => {
  await world.kill();
  await rm(dir, { recursive: true, force: true });
});

it("restores a snapshot into new volumes, whatever happens to the volume and the snapshot", async () => {
  const source = await world.volume("source");
  await writeFile(world.data(source, "file"), "first");
  await symlink("/etc/passwd", world.data(source, "link"));
  const snapshot = await world.snapshot("snapshot", source);
  await writeFile(world.data(source, "file"), "second");
  const one = await world.volume("one", fromSnapshot(snapshot));
  await writeFile(world.data(one, "file"), "third");
  const two = await world.volume("two", fromSnapshot(snapshot));
  await world.client.call("DeleteVolume", { volumeId: source });
  await world.client.call("DeleteSnapshot", { snapshotId: snapshot });
  const clone = await world.volume("clone", fromVolume(one));
  const contents = await Promise.all([one, two, clone].map((id) => readFile(world.data(id, "file"), "utf8")));
  expect(contents).toEqual(["third", "first", "third"]);
  await expect(world.client.call("DeleteVolume", { volumeId: source })).resolves.toBeDefined();
  await expect(world.volume("late", fromSnapshot(snapshot))).rejects.toThrow("NOT_FOUND");
});

it("answers a repeated request with what the first one made, and refuses other parameters", async () => {
  const capacityRange = { requiredBytes: gibibyte };
  const source = await world.volume("repeated", { capacityRange });
  expect(await world.volume("repeated", { capacityRange })).toBe(source);
  await expect(world.volume("repeated", { capacityRange: { requiredBytes: 2 * gibibyte } })).rejects.toThrow(
    "ALREADY_EXISTS",
  );
  const other = await world.volume("another");
  const snapshot = await world.snapshot("repeated", source);
  expect(await world.snapshot("repeated", source)).toBe(snapshot);
  await expect(world.snapshot("repeated", other)).rejects.toThrow("ALREADY_EXISTS");
});

describe("groups", () => {
  const create = (name: string, ...sourceVolumeIds: string[]) => world.group(name, sourceVolumeIds);
  const request = (groupSnapshotId: string, snapshotIds: string[] = []) => ({ groupSnapshotId, snapshotIds });
  const existing = async (ids: readonly string[]) =>
    (await world.client.listSnapshots()).map(({ snapshotId }) => snapshotId).filter((id) => ids.includes(id));

  it("copies several volumes together, and answers a repeated request with the first group", async () => {
    const [a, b] = [await world.volume("member-a"), await world.volume("member-b")];
    for (const volume of [a, b]) await writeFile(world.data(volume, "file"), volume);
    const { groupSnapshotId, snapshots } = await create("group", a, b);
    for (const volume of [a, b]) await writeFile(world.data(volume, "file"), "later");
    expect(await create("group", b, a)).toMatchObject({ groupSnapshotId });
    await expect(create("group", a)).rejects.toThrow("ALREADY_EXISTS");
    for (const { snapshotId, sourceVolumeId } of snapshots) {
      const copy = await world.volume(`copy-${snapshotId}`, fromSnapshot(snapshotId));
      expect(await readFile(world.data(copy, "file"), "utf8")).toBe(sourceVolumeId);
    }
    const ids = snapshots.map(({ snapshotId }) => snapshotId);
    expect(new Set(snapshots.map(({ creationTime }) => JSON.stringify(creationTime))).size).toBe(1);
    await expect(world.client.call("GetVolumeGroupSnapshot", request(groupSnapshotId, ids))).resolves.toBeDefined();
    await expect(world.client.call("GetVolumeGroupSnapshot", request(groupSnapshotId, ["snap-x"]))).rejects.toThrow(
      "INVALID_ARGUMENT",
    );
    await expect(world.client.call("DeleteSnapshot", { snapshotId: ids[0] })).rejects.toThrow("INVALID_ARGUMENT");
    expect(await existing(ids)).toHaveLength(2);
    for (let n = 0; n < 2; n += 1) await world.client.call("DeleteVolumeGroupSnapshot", request(groupSnapshotId, ids));
    expect(await existing(ids)).toEqual([]);
  });

  it("makes no group if one of the volumes does not exist", async () => {
    const before = await world.client.listSnapshots();
    const missing = `vol-${"0".repeat(40)}`;
    await expect(create("half", await world.volume("member-c"), missing)).rejects.toThrow("NOT_FOUND");
    expect(await world.client.listSnapshots()).toEqual(before);
  });
});

it("refuses a volume that is smaller than the content, and never makes one smaller", async () => {
  const big = await world.volume("big", { capacityRange: { requiredBytes: 3 * gibibyte } });
  const tooSmall = { ...fromVolume(big), capacityRange: { requiredBytes: gibibyte } };
  await expect(world.volume("small", tooSmall)).rejects.toThrow("OUT_OF_RANGE");
  expect(await world.client.expand(big, gibibyte)).toBe(3 * gibibyte);
  expect(await world.client.expand(big, 5 * gibibyte)).toBe(5 * gibibyte);
});

it.each([
  ["a path as an id", { method: "DeleteVolume", request: { volumeId: "../../outside" } }],
  ["an id with a path", { method: "DeleteSnapshot", request: { snapshotId: `snap-${"0".repeat(40)}/../../..` } }],
])("ignores %s", async (_, { method, request }) => {
  mkdirSync(join(dir, "outside"), { recursive: true });
  await expect(world.client.call(method, request)).resolves.toEqual({});
  expect(statSync(join(dir, "outside")).isDirectory()).toBe(true);
});

it.each([
  ["a block device", { volumeCapabilities: [{ block: {}, accessMode: { mode: "SINGLE_NODE_WRITER" } }] }],
  ["an unknown parameter", { parameters: { type: "fast" } }],
  ["a name that is too long", { name: "x".repeat(129) }],
  ["no capability", { volumeCapabilities: [] }],
  ["huge parameters", { parameters: { key: "x".repeat(5_000) } }],
])("refuses %s", async (_, request) => {
  await expect(world.volume("refused", request)).rejects.toThrow("INVALID_ARGUMENT");
});

it("refuses a message that is too large, and answers the next one", async () => {
  await expect(world.volume("x".repeat(2 * 1024 ** 2))).rejects.toThrow("RESOURCE_EXHAUSTED");
  await expect(world.client.call("Probe")).resolves.toBeDefined();
});

describe("a large volume", () => {
  let large: World;
  let source: string;
  const mebibytes = 512;
  beforeAll(async () => {
    large = new World(await mkdtemp(join(tmpdir(), "ramet-csi-")));
    await large.start();
    source = await large.volume("source");
    const block = Buffer.alloc(1024 ** 2, "x");
    for (let written = 0; written < mebibytes; written += 1) await appendFile(large.data(source, "file"), block);
  });
  afterAll(async () => {
    await large.kill();
    await rm(large.dir, { recursive: true, force: true });
  });

  it("refuses what another operation uses until that has ended", async () => {
    const snapshot = large.snapshot("busy", source);
    const settled = await Promise.allSettled([
      large.snapshot("busy", source),
      large.client.call("DeleteVolume", { volumeId: source }),
    ]);
    const id = await snapshot;
    for (const result of settled) {
      // On a fast disk the first request has ended before the others begin.
      if (result.status === "rejected") expect(String(result.reason)).toContain("ABORTED");
    }
    expect(await large.snapshot("busy", source)).toBe(id);
  });

  it("leaves neither half a snapshot nor half a volume after it was killed", async () => {
    const whole = await large.snapshot("whole", source);
    const doomed = [large.snapshot("half", source), large.volume("half", fromSnapshot(whole))];
    const ended = Promise.allSettled(doomed);
    await expect.poll(() => readdirSync(join(large.directory, "making")).length).toBe(2);
    await large.kill();
    await ended;
    await large.start();
    expect(readdirSync(join(large.directory, "making"))).toEqual([]);
    expect((await large.client.listSnapshots()).map(({ snapshotId }) => snapshotId)).toContain(whole);
    const again = await large.volume("half", fromSnapshot(whole));
    expect(statSync(large.data(again, "file")).size).toBe(mebibytes * 1024 ** 2);
  });

  it("leaves no member of a group that it could not complete", async () => {
    const small = await large.volume("small");
    const known = (await large.client.listSnapshots()).map(({ snapshotId }) => snapshotId);
    const ended = Promise.allSettled([large.group("half", [source, small])]);
    // The small volume is copied first.
    const listed = async () => (await large.client.listSnapshots()).map(({ snapshotId }) => snapshotId);
    await expect.poll(async () => (await listed()).length).toBe(known.length + 1);
    await large.kill();
    await ended;
    await large.start();
    expect(await listed()).toEqual(known);
    expect((await large.group("half", [source, small])).snapshots).toHaveLength(2);
  });
});

describe.skipIf(!isRoot)("file systems", () => {
  const mounted: string[] = [];
  const worlds: World[] = [];
  afterEach(async () => {
    for (const one of worlds.splice(0)) await one.kill();
    for (const at of mounted.splice(0)) execFileSync("umount", [at]);
  });

  /** Mounts a file as a file system. */
  async function worldOn(megabytes: number, mkfs: string[]): Promise<World> {
    const at = await mkdtemp(join(dir, "disk-"));
    const image = `${at}.img`;
    await writeFile(image, "");
    await truncate(image, megabytes * 1024 ** 2);
    execFileSync(mkfs[0] ?? "", [...mkfs.slice(1), image], { stdio: "ignore" });
    execFileSync("mount", ["-o", "loop", image, at]);
    mounted.push(at);
    const one = new World(await mkdtemp(join(dir, "world-")), join(at, "driver"));
    worlds.push(one);
    await one.start();
    return one;
  }

  it("reports a full disk, and keeps what was there", async () => {
    const small = await worldOn(64, ["mkfs.ext4", "-q"]);
    const source = await small.volume("source");
    await writeFile(small.data(source, "file"), Buffer.alloc(36 * 1024 ** 2, "x"));
    await expect(small.snapshot("too-much", source)).rejects.toThrow(/RESOURCE_EXHAUSTED.*no space left/);
    expect(readdirSync(join(small.directory, "making"))).toEqual([]);
    await writeFile(small.data(source, "file"), "small");
    await expect(small.snapshot("too-much", source)).resolves.toMatch(/^snap-/);
  });

  const programs = [
    ["XFS", ["mkfs.xfs", "-q", "-m", "reflink=1"]],
    ["btrfs", ["mkfs.btrfs", "-q"]],
  ] as const;
  it.each(programs.filter(([, [program]]) => isInstalled(program)))(
    "shares the blocks of snapshots and clones on %s, and says so",
    async (_, mkfs) => {
      const sharing = await worldOn(512, [...mkfs]);
      const volume = await sharing.client.createVolume({ name: "a", volumeCapabilities: [mountCapability] });
      expect(volume.volumeContext).toEqual({ copies: "reflink" });
      await writeFile(sharing.data(volume.volumeId, "file"), Buffer.alloc(200 * 1024 ** 2, "x"));
      // 2.2 GB on a disk of 512 MB.
      for (let n = 0; n < 10; n += 1) {
        const clone = await sharing.volume(
          `clone-${n}`,
          fromSnapshot(await sharing.snapshot(`s-${n}`, volume.volumeId)),
        );
        expect(statSync(sharing.data(clone, "file")).size).toBe(200 * 1024 ** 2);
      }
    },
  );
});

function isInstalled(program: string): boolean {
  try {
    execFileSync("which", [program], { stdio: "ignore" });
    return true;
  } catch {
    return false;
  }
}

it("says on a file system that cannot share blocks that it copies", async () => {
  const volume = await world.client.createVolume({ name: "full", volumeCapabilities: [mountCapability] });
  const log = await readFile(join(dir, "driver.log"), "utf8");
  const copies = volume.volumeContext["copies"];
  expect(["full", "reflink"]).toContain(copies);
  expect(log).toContain(`"copies":"${copies}"`);
});
