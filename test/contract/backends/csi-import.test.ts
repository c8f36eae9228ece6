import { readdirSync } from "node:fs";
import { join } from "node:path";
import { afterAll, afterEach, beforeAll, describe, expect, it } from "vitest";
import { Checkpoint, type CheckpointPart } from "../../../src/api/kinds/checkpoint.ts";
import type { ImportedVolume } from "../../../src/api/kinds/volume-import.ts";
import { annotations, labels } from "../../../src/api/names/labels.ts";
import type { Backend, Capture, CheckpointName } from "../../../src/backends/backend.ts";
import { snapshotName } from "../../../src/backends/csi/captured-volume.ts";
import { csiBackend } from "../../../src/backends/csi/csi-backend.ts";
import { importedContentName } from "../../../src/backends/csi/release-data.ts";
import { controllerName, systemNamespace } from "../../../src/api/names/system-names.ts";
import { assertGuarded } from "../../../src/controllers/checkpoint/import.ts";
import { driverName } from "../../../src/local/csi/unary.ts";
import { controllerRights } from "../../../src/install/controller-rights.ts";
import { roles } from "../../../src/install/rights.ts";
import { KubeClient } from "../../../src/kube/kube-client.ts";
import { connectionFromKubeconfig } from "../../../src/kube/kubeconfig.ts";
import { snapshotClassesIn, snapshotContentsIn, snapshotsIn } from "../../../src/kube/volumes/snapshots.ts";
import { makeNamespace } from "../../setup/namespace.ts";
import { VolumeClaims } from "../../setup/volume-claims.ts";
import { startVolumeCluster, type VolumeCluster } from "../../setup/volume-cluster.ts";

/** The real driver, snapshot-controller and csi-snapshotter. `home` captures, `away` imports. */
let cluster: VolumeCluster;
let home: VolumeClaims;
let away: VolumeClaims;
let backend: Backend;
/** For imports that never succeed. The controllers may repeat a step of others, which takes seconds. */
let hasty: Backend;
let number = 0;

beforeAll(async () => {
  cluster = await startVolumeCluster();
  for (const namespace of ["home", "away", "rival"]) await makeNamespace(cluster.client, namespace);
  home = new VolumeClaims(cluster, "home");
  away = new VolumeClaims(cluster, "away");
  backend = csiBackend({ client: cluster.client });
  hasty = csiBackend({ client: cluster.client, importMilliseconds: 5_000 });
});
afterAll(() => cluster.stop());
afterEach(() => {
  process.kill(cluster.programs["snapshot-controller"].pid, "SIGCONT");
});

const newName = (namespace = "away"): CheckpointName => ({ namespace, checkpointId: `i-${++number}` });
const snapshots = () => snapshotsIn(cluster.client);
const contents = () => snapshotContentsIn(cluster.client);

/** Captures a new claim with a text in the namespace `home`. */
async function captured(text: string): Promise<{ name: CheckpointName; part: CheckpointPart }> {
  const name = newName("home");
  const claim = `claim-${++number}`;
  await home.create(claim);
  await home.write(claim, text);
  const source = {
    namespace: "home",
    name: claim,
    uid: `uid-${number}`,
    podIp: "",
    claims: [{ volume: "data", claim }],
  };
  await backend.capture({ name, source, contents: ["volumes"], keepRunning: true });
  const [part] = (await backend.whenReady(name)).parts;
  return { name, part: part! };
}

const volumeOf = ({ handle, sizeBytes }: CheckpointPart): ImportedVolume => ({
  volume: "data",
  driver: driverName,
  snapshotHandle: handle,
  sizeBytes,
});

const imported = (
  name: CheckpointName,
  volume: ImportedVolume,
  { takesOwnership = false, by = backend } = {},
): Promise<Capture> => by.importVolumes!({ name, volumes: [volume], takesOwnership });

/** Reads the data in a clone of an import. */
async function read(name: CheckpointName, { parts }: Capture): Promise<string> {
  const clone = `clone-${++number}`;
  const filled = await backend.fillClaim!({
    name,
    part: parts[0]!,
    spec: { resources: { requests: { storage: "1Mi" } } },
  });
  await away.create(clone, filled);
  return away.read(clone);
}

const hasData = ({ handle }: CheckpointPart): boolean =>
  readdirSync(join(cluster.driver.directory, "snapshots")).includes(handle);

/** The objects of a checkpoint. */
async function leftOf({ namespace, checkpointId }: CheckpointName): Promise<string[]> {
  const shape = `ramet-${checkpointId}-`;
  const found = (await snapshots().list({ namespace })).items.map(({ metadata }) => metadata.name);
  const refs = (await contents().list()).items.map(({ spec }) => spec.volumeSnapshotRef);
  const bound = refs.flatMap((ref) => (ref.namespace === namespace ? (ref.name ?? "") : []));
  return [...found, ...bound].filter((one) => one.startsWith(shape));
}

async function expectNothingLeft(name: CheckpointName): Promise<void> {
  await expect.poll(() => leftOf(name)).toEqual([]);
}

async function expectRefused(volume: ImportedVolume, code: string, message: RegExp): Promise<void> {
  const name = newName();
  const error: unknown = await imported(name, volume, { by: hasty }).catch((thrown: unknown) => thrown);
  expect(error).toMatchObject({ code, message: expect.stringMatching(message) as string });
  await expectNothingLeft(name);
}

describe("an import", () => {
  it("has the data of the other namespace, also after a repeat", async () => {
    const { part } = await captured("from home");
    const name = newName();
    const first = await imported(name, volumeOf(part));
    expect(first.isDurable).toBe(true);
    expect(first.parts[0]).toMatchObject({
      handle: part.handle,
      sizeBytes: part.sizeBytes,
      volume: { volume: "data", driver: driverName, imported: "Kept" },
    });
    expect(await read(name, first)).toBe("from home");
    const again = await imported(name, volumeOf(part));
    expect(again.parts[0]?.volume?.snapshot).toBe(first.parts[0]?.volume?.snapshot);
    expect(await leftOf(name)).toHaveLength(2);
  });

  it("refuses a handle that the driver does not know, and leaves nothing", async () => {
    const volume = { volume: "data", driver: driverName, snapshotHandle: "snap-of-nobody" };
    await expectRefused(
      volume,
      "VolumeNotImported",
      /snap-of-nobody of the CSI driver .* cannot be imported: .*snap-of-nobody/,
    );
  });

  it("refuses a driver without a class, and another size than the driver reports", async () => {
    const { part } = await captured("one");
    const other = { ...volumeOf(part), driver: "other.example.org" };
    await expectRefused(other, "NotSupported", /The CSI driver other\.example\.org has no VolumeSnapshotClass/);
    const larger = { ...volumeOf(part), sizeBytes: part.sizeBytes + 1 };
    await expectRefused(larger, "VolumeNotImported", /its driver reports \d+ bytes, and the import says/);
    expect(hasData(part)).toBe(true);
  });

  it("leaves nothing if no driver responds, and its class exists", async () => {
    const classes = snapshotClassesIn(cluster.client);
    const driver = "absent.example.org";
    await classes.create({
      apiVersion: "snapshot.storage.k8s.io/v1",
      kind: "VolumeSnapshotClass",
      metadata: { name: "absent" },
      driver,
      deletionPolicy: "Retain",
    });
    await expectRefused(
      { volume: "data", driver, snapshotHandle: "snap-1" },
      "VolumeNotImported",
      /no error was reported/,
    );
    await classes.delete({ name: "absent" });
  });

  it("does not use a VolumeSnapshot that somebody else has created under its name", async () => {
    const { part } = await captured("one");
    const name = newName();
    const squatter = { namespace: "away", name: snapshotName(name, "data") };
    await snapshots().create({
      apiVersion: "snapshot.storage.k8s.io/v1",
      kind: "VolumeSnapshot",
      metadata: squatter,
      spec: { source: { volumeSnapshotContentName: "another" } },
    });
    await expect(imported(name, volumeOf(part))).rejects.toMatchObject({ code: "AlreadyExists" });
    const contentName = importedContentName("away", squatter.name);
    await expect.poll(() => contents().find({ name: contentName })).toBeUndefined();
    expect(await snapshots().find(squatter)).toBeDefined();
    await snapshots().delete(squatter);
  });

  it("continues after an end between each two steps, and is removed from there", async () => {
    const { part } = await captured("steps");
    for (const ended of ["before the VolumeSnapshot", "before the binding"]) {
      for (const isContinued of [true, false]) {
        const name = newName();
        const dying = new AbortController();
        process.kill(cluster.programs["snapshot-controller"].pid, "SIGSTOP");
        const volumes = [volumeOf(part)];
        const first = backend.importVolumes!({ name, volumes, takesOwnership: false, signal: dying.signal }).catch(
          (error: unknown) => error,
        );
        const at = { namespace: "away", name: snapshotName(name, "data") };
        await expect.poll(() => snapshots().find(at)).toBeDefined();
        dying.abort();
        expect(await first).toMatchObject({ code: "Canceled" });
        if (ended === "before the VolumeSnapshot") await snapshots().delete(at);
        process.kill(cluster.programs["snapshot-controller"].pid, "SIGCONT");
        if (isContinued) expect(await read(name, await imported(name, volumeOf(part)))).toBe("steps");
        await backend.remove(name);
        await expectNothingLeft(name);
      }
    }
    expect(hasData(part)).toBe(true);
  });
});

describe("the controllers' service account", () => {
  const account = { name: controllerName, namespace: systemNamespace };
  const user = `system:serviceaccount:${account.namespace}:${account.name}`;
  let client: KubeClient;
  beforeAll(async () => {
    const connection = await connectionFromKubeconfig({ path: cluster.kubeconfigPath });
    client = new KubeClient({ ...connection, impersonate: { user, groups: ["system:authenticated"], extra: {} } });
  });
  afterAll(() => client.close());

  const install = async (importVolumes: boolean): Promise<void> => {
    const rights = { everywhere: controllerRights(undefined, { importVolumes }).everywhere, inSystem: [] };
    const ofCluster = roles(account, rights).filter(({ metadata }) => metadata.namespace === undefined);
    for (const { kind, ...rest } of ofCluster) {
      const ref = { group: "rbac.authorization.k8s.io", version: "v1", kind, namespaced: false };
      const resource = cluster.client.resource({ ...ref, plural: `${kind.toLowerCase()}s` });
      await resource.apply({ kind, ...rest }, { fieldManager: "test", force: true });
    }
  };

  it("imports with the rights of an installation with imports, and not with those of another one", async () => {
    const { part } = await captured("rights");
    const own = csiBackend({ client });
    const request = () => ({ name: newName(), volumes: [volumeOf(part)], takesOwnership: true });
    await install(false);
    const refused = request();
    await expect
      .poll(() => own.importVolumes!(refused).catch((error: unknown) => error))
      .toMatchObject({ code: "ImportsDisabled", hint: "Install with --import-volumes" });
    await expectNothingLeft(refused.name);
    await install(true);
    const allowed = request();
    await expect
      .poll(() => own.importVolumes!(allowed).then(({ parts }) => parts.length, String), { timeout: 20_000 })
      .toBe(1);
    const guard = assertGuarded(client, Checkpoint.parse(checkpoint));
    await expect(guard).rejects.toMatchObject({ code: "ImportNotGuarded" });
    await own.remove(allowed.name);
    await expectNothingLeft(allowed.name);
    expect(hasData(part)).toBe(true);
  });
});

const checkpoint = {
  apiVersion: "agents.kruise.io/v1alpha1",
  kind: "Checkpoint",
  metadata: { name: "a", namespace: "away", uid: "1", resourceVersion: "1", creationTimestamp: "2030-01-01T00:00:00Z" },
  spec: { volumeImport: { volumes: [{ volume: "data", driver: driverName, snapshotHandle: "1" }] } },
};

describe("the data of several contents", () => {
  it("outlives the original, and goes with the last import", async () => {
    const { name: original, part } = await captured("kept");
    const names = [newName(), newName()];
    const [first, second] = [await imported(names[0]!, volumeOf(part)), await imported(names[1]!, volumeOf(part))];
    await backend.remove(original);
    await expectNothingLeft(original);
    expect(hasData(part)).toBe(true);
    expect(await read(names[0]!, first)).toBe("kept");
    await backend.remove(names[0]!);
    await expectNothingLeft(names[0]!);
    expect(await read(names[1]!, second)).toBe("kept");
    await backend.remove(names[1]!);
    await expectNothingLeft(names[1]!);
    await expect.poll(() => hasData(part)).toBe(false);
  });

  it("stays with the original when an import is removed, also one that has taken it over", async () => {
    const { name: original, part } = await captured("kept");
    for (const takesOwnership of [false, true]) {
      const name = newName();
      await imported(name, volumeOf(part), { takesOwnership });
      await backend.remove(name);
      await expectNothingLeft(name);
      expect(hasData(part)).toBe(true);
    }
    await backend.remove(original);
    await expect.poll(() => hasData(part)).toBe(false);
  });

  it("goes once, whichever of several removals at the same moment is the last", async () => {
    for (let round = 0; round < 5; round++) {
      const { name: original, part } = await captured("raced");
      const names = [newName(), newName(), newName()];
      for (const name of names) await imported(name, volumeOf(part));
      await Promise.all([original, ...names].map((name) => backend.remove(name)));
      for (const name of [original, ...names]) await expectNothingLeft(name);
      await expect.poll(() => hasData(part)).toBe(false);
    }
  });

  it("is kept if only an import of it begins while it is removed", async () => {
    for (let round = 0; round < 5; round++) {
      const { name: original, part } = await captured("raced");
      const name = newName();
      const [outcome] = await Promise.all([
        imported(name, volumeOf(part), { by: hasty }).catch((error: unknown) => error),
        backend.remove(original),
      ]);
      await expectNothingLeft(original);
      if (outcome instanceof Error) {
        expect((outcome as { code?: string }).code).toMatch(/^(Unavailable|VolumeNotImported)$/);
        await expectNothingLeft(name);
      } else {
        expect(await read(name, outcome as Capture)).toBe("raced");
        await backend.remove(name);
      }
      await expect.poll(() => hasData(part), { timeout: 90_000 }).toBe(false);
    }
  });
});

describe("two tenants with the same checkpoint id", () => {
  const both = (): { ours: CheckpointName; theirs: CheckpointName } => {
    const ours = newName();
    return { ours, theirs: { ...ours, namespace: "rival" } };
  };

  it("import one snapshot, at the same time and in turns, and take nothing from each other", async () => {
    const { name: original, part } = await captured("shared");
    const { ours, theirs } = both();
    const [own] = await Promise.all([ours, theirs].map((name) => imported(name, volumeOf(part))));
    for (const takesOwnership of [false, true]) {
      await backend.remove(theirs);
      await expectNothingLeft(theirs);
      expect(await leftOf(ours)).toHaveLength(2);
      await imported(theirs, volumeOf(part), { takesOwnership });
    }
    await backend.remove(theirs);
    await backend.remove(original);
    await expectNothingLeft(original);
    expect(await read(ours, own!)).toBe("shared");
    // The one that remains last has the duty to delete the data.
    await imported(theirs, volumeOf(part));
    await backend.remove(ours);
    await expectNothingLeft(ours);
    expect(hasData(part)).toBe(true);
    await backend.remove(theirs);
    await expectNothingLeft(theirs);
    await expect.poll(() => hasData(part)).toBe(false);
    const late = imported(ours, volumeOf(part), { by: hasty });
    await expect(late).rejects.toMatchObject({ code: "VolumeNotImported" });
    await expectNothingLeft(ours);
  });

  it("remove only their own, also with a VolumeSnapshot that names the content of the other one", async () => {
    const { name: original, part } = await captured("named");
    const { ours, theirs } = both();
    const own = await imported(ours, volumeOf(part), { takesOwnership: true });
    await backend.remove(original);
    await expectNothingLeft(original);
    const name = snapshotName(ours, "data");
    await snapshots().create({
      apiVersion: "snapshot.storage.k8s.io/v1",
      kind: "VolumeSnapshot",
      metadata: { namespace: "rival", name, labels: { [labels.checkpointId]: ours.checkpointId } },
      spec: { source: { volumeSnapshotContentName: importedContentName("away", name) } },
    });
    await backend.remove(theirs);
    expect(await leftOf(ours)).toHaveLength(2);
    expect(await read(ours, own)).toBe("named");
    await backend.remove(ours);
    await expect.poll(() => hasData(part)).toBe(false);
  });
});

describe("the data of another cluster", () => {
  /** A snapshot that this cluster has not captured: its content was removed without its data. */
  async function foreign(text: string): Promise<CheckpointPart> {
    const { name, part } = await captured(text);
    const keeper = newName();
    await imported(keeper, volumeOf(part));
    await backend.remove(name);
    await expectNothingLeft(name);
    const content = { name: importedContentName("away", snapshotName(keeper, "data")) };
    await contents().mergePatch(content, { metadata: { annotations: { [annotations.ownsData]: null } } });
    await backend.remove(keeper);
    await expectNothingLeft(keeper);
    expect(hasData(part)).toBe(true);
    return part;
  }

  it("is never deleted, unless an import takes it over", async () => {
    const part = await foreign("theirs");
    const name = newName();
    expect(await read(name, await imported(name, volumeOf(part)))).toBe("theirs");
    await backend.remove(name);
    await expectNothingLeft(name);
    expect(hasData(part)).toBe(true);
    const taking = newName();
    expect((await imported(taking, volumeOf(part), { takesOwnership: true })).parts[0]?.volume?.imported).toBe("Owned");
    await backend.remove(taking);
    await expectNothingLeft(taking);
    await expect.poll(() => hasData(part)).toBe(false);
  });

  it("is not deleted by an import that fails to take it over", async () => {
    const part = await foreign("theirs");
    const name = newName();
    const wrong = { ...volumeOf(part), sizeBytes: part.sizeBytes + 1 };
    await expect(imported(name, wrong, { takesOwnership: true })).rejects.toMatchObject({ code: "VolumeNotImported" });
    await expectNothingLeft(name);
    expect(hasData(part)).toBe(true);
  });
});

describe("a sweep", () => {
  it("removes imports of checkpoints without an object, and keeps those of others", async () => {
    const { part } = await captured("swept");
    const [kept, lost, unbound] = [newName(), newName(), newName()];
    for (const name of [kept, lost, unbound]) await imported(name, volumeOf(part));
    const deleted = { namespace: "away", name: snapshotName(unbound, "data") };
    await snapshots().delete(deleted);
    await expect.poll(() => snapshots().find(deleted)).toBeUndefined();
    const sweeping = csiBackend({ client: cluster.client, sweepOlderThanMilliseconds: -1_000 });
    const gone = new Set([lost.checkpointId, unbound.checkpointId]);
    const liveness = ({ checkpointId }: CheckpointName) =>
      Promise.resolve(gone.has(checkpointId) ? ("absent" as const) : ("finished" as const));
    const swept = await sweeping.sweep!(liveness, new AbortController().signal);
    expect(swept.checkpoints).toEqual([lost]);
    for (const name of [lost, unbound]) await expectNothingLeft(name);
    expect(await leftOf(kept)).toHaveLength(2);
    expect(hasData(part)).toBe(true);
  });
});
