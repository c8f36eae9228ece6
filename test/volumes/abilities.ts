import { expect } from "vitest";
import { checkpointClass } from "../../src/backends/csi/snapshot-class.ts";
import { RametError } from "../../src/base/errors.ts";
import { snapshotClassesIn } from "../../src/kube/volumes/snapshots.ts";
import { storageClassesIn, type StorageClass } from "../../src/kube/volumes/volumes.ts";
import { sleeping } from "../setup/sandbox-with-volume.ts";
import type { ExistingCluster } from "./existing-cluster.ts";

/** The abilities of the cluster, or why it lacks one. */
export interface Abilities {
  volumes: "yes" | { reason: string };
  memory: "yes" | { reason: string };
  /** The description of the classes that are used. */
  description: string;
}

/**
 * Finds out what the cluster can do: by its classes, and by a sandbox without volumes that is captured with its memory.
 * @throws an error if Ramet is not installed, or cannot run a sandbox
 */
export async function abilitiesOf(cluster: ExistingCluster): Promise<Abilities> {
  await cluster.checkpoints.list({ namespace: cluster.namespace }).catch((error: unknown) => {
    if (RametError.from(error).code !== "NotFound") throw error;
    throw new Error("Ramet is not installed in this cluster: it has no Checkpoints", { cause: error });
  });
  return { ...(await volumeAbility(cluster)), memory: await memoryAbility(cluster) };
}

async function volumeAbility(cluster: ExistingCluster): Promise<Pick<Abilities, "volumes" | "description">> {
  try {
    const { name, driver } = await storageClassOf(cluster);
    const { items } = await snapshotClassesIn(cluster.client).list();
    const description = `StorageClass ${name} of ${driver}, VolumeSnapshotClass ${checkpointClass(driver, items)}`;
    return { volumes: "yes", description };
  } catch (thrown) {
    const { code, message } = RametError.from(thrown);
    const reason = code === "NotFound" ? "the cluster has no VolumeSnapshots" : message;
    return { volumes: { reason }, description: "no volumes" };
  }
}

/** @throws RametError `NotSupported` */
async function storageClassOf({ client, setting }: ExistingCluster): Promise<{ name: string; driver: string }> {
  const { items } = await storageClassesIn(client).list();
  const isWanted = ({ metadata }: StorageClass): boolean =>
    setting.storageClass === undefined
      ? metadata.annotations?.["storageclass.kubernetes.io/is-default-class"] === "true"
      : metadata.name === setting.storageClass;
  const found = items.find(isWanted);
  if (found !== undefined) return { name: found.metadata.name, driver: found.provisioner };
  const which = setting.storageClass === undefined ? "default StorageClass" : `StorageClass ${setting.storageClass}`;
  throw new RametError("NotSupported", `the cluster has no ${which}`);
}

async function memoryAbility(cluster: ExistingCluster): Promise<Abilities["memory"]> {
  const { image } = cluster.setting;
  const containers = [{ name: "main", image, command: ["python3", "-c", sleeping] }];
  await cluster.create("SandboxTemplate", "probe", { template: { spec: { containers } } });
  await cluster.ramet("sandbox", "create", "--template", "probe", "--name", "probe", ...cluster.patience);
  expect(await cluster.shell("probe", "echo works")).toBe("works");
  const contents = ["--contents", "memory,filesystem"];
  const captured = await cluster.run(
    "checkpoint",
    "create",
    "probe",
    "--name",
    "probe",
    ...contents,
    ...cluster.patience,
  );
  if (captured.exitCode === 0) return "yes";
  const { stderr } = captured;
  // Anything else is a fault of the cluster, which must not look like a limit of it.
  if (!/\[(NotSupported|HostUnsupported)\]/.test(stderr)) throw new Error(`capturing memory failed: ${stderr}`);
  return { reason: stderr.trim().split("\n")[0] ?? "" };
}
