import { readFile, writeFile } from "node:fs/promises";
import { describe, expect, it } from "vitest";
import { namedSnapshotKind } from "../../src/api/kinds/named-snapshot.ts";
import { sandboxTemplateKind } from "../../src/api/kinds/sandbox-template.ts";
import { findCondition } from "../../src/kube/conditions.ts";
import { refOf } from "../../src/kube/resource-ref.ts";
import { snapshotContentsIn, snapshotsIn } from "../../src/kube/volumes/snapshots.ts";
import { makeNamespace } from "../setup/namespace.ts";
import { grantImports } from "../setup/import-rights.ts";
import { sandboxWithVolume } from "../setup/sandbox-with-volume.ts";
import { volumesWorld } from "./volumes-world.ts";

/** The namespace `default` captures, `team-b` imports. All of it by the command line, as users have it. */
const world = volumesWorld();
const away = "team-b";

const importOf = (file: string, name: string): string[] => {
  const of = `checkpoint import -f ${world.file(file)} --name ${name} --template with-data -n ${away}`;
  return of.split(" ");
};

const idle = "import time\nwhile True: time.sleep(60)";

it("captures a volume in one namespace, and clones it in another one, to which it was exported", async () => {
  await makeNamespace(world.client, away);
  await world.create("Sandbox", "a", sandboxWithVolume(idle));
  await world.untilRunning("a");
  await world.shell("a", "echo kept > /data/note");
  await world.capture("a", "--contents", "memory,filesystem,volumes", "--name", "original");
  const exported = await world.ramet("checkpoint", "export", "original");
  expect(exported.stderr).toContain("Not exported: memory and filesystem");
  expect(exported.stdout).toContain("format: ramet.dev/exported-volumes");
  await writeFile(world.file("a.yaml"), exported.stdout);

  const { template, volumeClaimTemplates } = sandboxWithVolume(idle);
  await world.client.resource(refOf(sandboxTemplateKind)).create({
    apiVersion: "agents.kruise.io/v1alpha1",
    kind: "SandboxTemplate",
    metadata: { name: "with-data", namespace: away },
    spec: { template, volumeClaimTemplates },
  });
});

describe("a user of the other namespace", () => {
  const importAs = (name: string) => [...importOf("a.yaml", name), "--kubeconfig", world.file("user.yaml")];

  it("cannot import without the verb", async () => {
    const admin = await readFile(world.kubeconfig, "utf8");
    await writeFile(world.file("user.yaml"), admin.replace(/^( *)user:$/m, "$1user:\n$1  as: anna"));
    await grantImports(world.client, { user: "anna", namespace: away, verbs: ["get", "list", "watch", "create"] });
    const refused = await world.cli.ramet(importAs("refused"));
    expect(refused.exitCode).not.toBe(0);
    expect(refused.stderr).toContain("get the right to import checkpoints (the verb import) in this namespace");
    expect(await world.checkpoints.find({ namespace: away, name: "refused" })).toBeUndefined();
  });

  it("can with it, and clones the data", async () => {
    await grantImports(world.client, {
      user: "anna",
      namespace: away,
      verbs: ["get", "list", "watch", "create", "import"],
    });
    const id = (await world.ramet(...importAs("imported"))).stdout.trim();
    const { status } = await world.checkpoints.get({ namespace: away, name: "imported" });
    expect(status).toMatchObject({ phase: "Succeeded", checkpointId: id });
    expect(status?.ramet?.parts?.[0]?.volume).toMatchObject({ volume: "data", imported: "Kept" });
    expect(await world.noteIn(away, "b", id)).toBe("kept");
    expect((await world.ramet("checkpoint", "ls", "-n", away)).stdout).toMatch(/imported +Succeeded .*<import>/);
    const explained = await world.ramet("explain", "checkpoint/imported", "-n", away);
    expect(explained.stdout).toContain("Its volumes are imported: their data is kept when it is deleted");
  });
});

it("builds a named snapshot from an import, with its volume", async () => {
  const { status } = await world.checkpoints.get({ namespace: away, name: "imported" });
  await world.client.resource(refOf(namedSnapshotKind)).create({
    apiVersion: "ramet.dev/v1alpha1",
    kind: "NamedSnapshot",
    metadata: { name: "named", namespace: away },
    spec: {
      from: { checkpoint: { id: status?.checkpointId } },
      recipe: [{ run: "cat /data/note && echo changed > /data/note" }],
      contents: ["memory", "filesystem", "volumes"],
      deletionPolicy: "Delete",
    },
  });
  const snapshots = world.client.of(namedSnapshotKind);
  const ready = async () => {
    const built = await snapshots.get({ namespace: away, name: "named" });
    return findCondition(built.status?.conditions, "Ready")?.status;
  };
  await expect.poll(ready, { timeout: 120_000 }).toBe("True");
  expect(await world.noteIn(away, "n", "named")).toBe("changed");
  expect(await world.noteIn(away, "m", status?.checkpointId ?? "")).toBe("kept");
  await world.ramet("snapshot", "rm", "named", "-n", away, "--timeout", "2m");
});

describe("while the driver does not respond", () => {
  /** The contents of a checkpoint. */
  const contentsOf = async (checkpoint: string) => {
    const { items } = await snapshotContentsIn(world.client).list();
    return items.filter(({ spec }) => spec.volumeSnapshotRef.name?.startsWith(`ramet-${checkpoint}-`));
  };
  const started = async (name: string): Promise<void> => {
    process.kill(world.pid("csi-driver"), "SIGSTOP");
    await world.ramet(...importOf("a.yaml", name), "--no-wait");
    await expect.poll(() => contentsOf(name)).toHaveLength(1);
  };

  it("completes an import whose controllers are killed", async () => {
    await started("killed");
    process.kill(world.pid("controller"), "SIGKILL");
    process.kill(world.pid("csi-driver"), "SIGCONT");
    const at = { namespace: away, name: "killed" };
    await expect
      .poll(async () => (await world.checkpoints.get(at)).status?.phase, { timeout: 60_000 })
      .toBe("Succeeded");
    await world.ramet("checkpoint", "rm", "killed", "-n", away);
  });

  it("ends an import that is deleted, and leaves nothing", async () => {
    await started("deleted");
    await world.ramet("checkpoint", "rm", "deleted", "-n", away);
    expect(await world.checkpoints.find({ namespace: away, name: "deleted" })).toBeUndefined();
    await expect.poll(() => contentsOf("deleted")).toEqual([]);
    process.kill(world.pid("csi-driver"), "SIGCONT");
  });
});

it("keeps the data when the original is deleted, and deletes it with the import", async () => {
  const imported = await world.checkpoints.get({ namespace: away, name: "imported" });
  const handle = imported.status?.ramet?.parts?.[0]?.handle ?? "";
  await world.ramet("checkpoint", "rm", "original");
  const gone = { namespace: "default", name: "original" };
  await expect.poll(() => world.checkpoints.find(gone), { timeout: 60_000 }).toBeUndefined();
  await expect.poll(async () => (await snapshotsIn(world.client).list({ namespace: "default" })).items).toEqual([]);
  await expect.poll(async () => (await snapshotContentsIn(world.client).list()).items).toHaveLength(1);
  expect(await world.hasSnapshot(handle)).toBe(true);
  expect(await world.noteIn(away, "c", imported.status?.checkpointId ?? "")).toBe("kept");

  await world.ramet("checkpoint", "rm", "imported", "-n", away);
  await expect
    .poll(() => world.checkpoints.find({ namespace: away, name: "imported" }), { timeout: 60_000 })
    .toBeUndefined();
  await expect.poll(async () => (await snapshotContentsIn(world.client).list()).items, { timeout: 60_000 }).toEqual([]);
  expect(await world.hasSnapshot(handle)).toBe(false);
});

it("explains an import of a snapshot that does not exist, and leaves nothing", async () => {
  const document = (await readFile(world.file("a.yaml"), "utf8")).replace(
    /snapshotHandle: .*/,
    "snapshotHandle: nobody",
  );
  await writeFile(world.file("wrong.yaml"), document);
  const refused = await world.cli.ramet([...importOf("wrong.yaml", "wrong"), "--timeout", "2m"]);
  expect(refused.exitCode).not.toBe(0);
  expect(refused.stderr).toContain("The snapshot nobody of the CSI driver local.csi.ramet.dev cannot be imported");
  expect((await snapshotContentsIn(world.client).list()).items).toEqual([]);
  expect((await snapshotsIn(world.client).list()).items).toEqual([]);
});
