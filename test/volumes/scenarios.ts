import { afterAll, beforeAll, describe, expect, it, type TestContext } from "vitest";
import type { Checkpoint } from "../../src/api/kinds/checkpoint.ts";
import { snapshotContentsIn, snapshotsIn } from "../../src/kube/volumes/snapshots.ts";
import { comparing, sandboxWithVolume, sleeping, violate, violations } from "../setup/sandbox-with-volume.ts";
import { type Abilities, abilitiesOf } from "./abilities.ts";
import { ExistingCluster } from "./existing-cluster.ts";
import { deleteAll } from "./remains.ts";
import type { VolumesSetting } from "./setting.ts";

/**
 * Tests what users do with volumes, in any cluster. What the cluster cannot do is skipped, with the reason.
 * @param settingOf is called before the first test
 */
export function volumeScenarios(settingOf: () => VolumesSetting | Promise<VolumesSetting>): void {
  describe("volumes in a cluster", () => {
    let cluster: ExistingCluster;
    let opened: ExistingCluster | undefined;
    let abilities: Abilities;

    beforeAll(async () => {
      opened = cluster = await ExistingCluster.open(await settingOf());
      abilities = await abilitiesOf(cluster);
      console.log(`${abilities.description}, namespace ${cluster.namespace}`);
    }, hour);
    afterAll(() => opened?.close(), hour);

    const need = (context: TestContext, ...needed: ("volumes" | "memory")[]): void => {
      for (const one of needed) {
        const ability = abilities[one];
        if (ability === "yes") continue;
        console.log(`Skipped "${context.task.name}", because ${ability.reason}`);
        context.skip(ability.reason);
      }
    };
    const start = async (name: string, program: string): Promise<void> => {
      const { image, storageClass } = cluster.setting;
      await cluster.create("Sandbox", name, sandboxWithVolume(program, { image, storageClass }));
      await cluster.untilRunning(name);
    };
    const note = (sandbox: string) => cluster.shell(sandbox, "cat /data/note");
    const write = (sandbox: string, text: string) => cluster.shell(sandbox, `echo ${text} > /data/note; sync`);

    it(
      "captures a volume alone, and clones it",
      async (context) => {
        need(context, "volumes");
        await start("a", sleeping);
        await write("a", "one");
        const checkpoint = await cluster.capture(
          "a",
          "--contents",
          "volumes",
          "--consistency",
          "sync",
          "--name",
          "alone",
        );
        await write("a", "two");
        await cluster.clone("b", "--from", idOf(checkpoint));
        expect([await note("a"), await note("b")]).toEqual(["two", "one"]);
        await write("b", "three");
        expect([await note("a"), await note("b")]).toEqual(["two", "three"]);
        const { snapshotClass } = cluster.setting;
        const { spec } = await snapshotsIn(cluster.client).get(snapshotAt(checkpoint));
        if (snapshotClass !== undefined) expect(spec?.volumeSnapshotClassName).toBe(snapshotClass);
      },
      hour,
    );

    it(
      "deletes the data of a checkpoint with it, and leaves the clones alone",
      async (context) => {
        need(context, "volumes");
        const checkpoint = await cluster.checkpoints.get({ namespace: cluster.namespace, name: "alone" });
        const at = snapshotAt(checkpoint);
        const { status } = await snapshotsIn(cluster.client).get(at);
        const content = { name: status?.boundVolumeSnapshotContentName ?? "" };
        expect((await snapshotContentsIn(cluster.client).get(content)).spec.deletionPolicy).toBe("Retain");
        await cluster.ramet("checkpoint", "rm", "alone", ...cluster.patience);
        const { client, timeoutSeconds } = cluster;
        const remaining = async () => [
          await snapshotsIn(client).find(at),
          await snapshotContentsIn(client).find(content),
        ];
        await expect.poll(remaining, { timeout: timeoutSeconds * 1000 }).toEqual([undefined, undefined]);
        expect([await note("a"), await note("b")]).toEqual(["two", "three"]);
        await cluster.ramet("sandbox", "rm", "b", ...cluster.patience);
      },
      hour,
    );

    it(
      "captures memory, files and a volume of one moment, while a program writes at full speed",
      async (context) => {
        need(context, "volumes", "memory");
        await start("w", comparing);
        const contents = ["--contents", "memory,filesystem,volumes", "--consistency", "atomic", "--require-atomic"];
        const checkpoint = await cluster.capture("w", ...contents);
        expect(checkpoint.status?.ramet).toMatchObject({ consistency: "atomic" });
        await cluster.clone("w-clone", "--from", idOf(checkpoint));
        for (const one of ["w", "w-clone"]) expect(await cluster.shell(one, violations)).toBe("");
        // The program of the clone continues, and would notice a volume of another moment.
        const noticed = () => cluster.shell("w-clone", violate).then(() => cluster.shell("w-clone", violations));
        await expect.poll(noticed, { timeout: 60_000 }).toMatch(/^memory \d+, volume 1$/m);
        await cluster.ramet("sandbox", "rm", "w", "w-clone", ...cluster.patience);
      },
      hour,
    );

    it(
      "forks a sandbox with its volume, and leaves no VolumeSnapshot",
      async (context) => {
        need(context, "volumes", "memory");
        await write("a", "forked");
        const before = await snapshotNames(cluster);
        await cluster.ramet("fork", "a", "--name-prefix", "f", ...cluster.patience);
        await write("a", "two");
        expect([await note("a"), await note("f-1")]).toEqual(["two", "forked"]);
        const timeout = cluster.timeoutSeconds * 1000;
        await expect.poll(() => snapshotNames(cluster), { timeout }).toEqual(before);
        await cluster.ramet("sandbox", "rm", "f-1", ...cluster.patience);
      },
      hour,
    );

    it(
      "captures the volume of a paused sandbox without resuming it, and resumes the sandbox with its volume",
      async (context) => {
        need(context, "volumes", "memory");
        await cluster.ramet("sandbox", "pause", "a", ...cluster.patience);
        const checkpoint = await cluster.capture("a", "--volumes", "*");
        const at = { namespace: cluster.namespace, name: "a" };
        expect((await cluster.sandboxes.get(at)).status?.phase).toBe("Paused");
        await cluster.clone("p", "--from", idOf(checkpoint));
        await write("p", "four");
        await cluster.ramet("sandbox", "resume", "a", ...cluster.patience);
        expect([await note("a"), await note("p")]).toEqual(["two", "four"]);
      },
      hour,
    );

    it(
      "leaves nothing in the namespace or in the cluster when its objects are deleted",
      async () => {
        expect(await deleteAll(cluster)).toEqual([]);
      },
      hour,
    );
  });
}

/** Every step has a shorter limit of its own. */
const hour = 3_600_000;

function idOf({ status }: Checkpoint): string {
  return status?.checkpointId ?? "";
}

function snapshotAt({ metadata, status }: Checkpoint): { namespace: string; name: string } {
  const volume = status?.ramet?.parts?.find(({ backend }) => backend === "csi")?.volume;
  return { namespace: metadata.namespace, name: volume?.snapshot ?? "" };
}

async function snapshotNames({ client, namespace }: ExistingCluster): Promise<string[]> {
  return (await snapshotsIn(client).list({ namespace })).items.map(({ metadata }) => metadata.name).sort();
}
