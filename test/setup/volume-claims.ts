import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect } from "vitest";
import { type Claim, type ClaimSpec, claimsIn, volumesIn } from "../../src/kube/volumes/volumes.ts";
import type { VolumeCluster } from "./volume-cluster.ts";

/** The claims of one namespace of a cluster without a node: a test reads and writes the files of their volumes. */
export class VolumeClaims {
  readonly #cluster: VolumeCluster;
  readonly #namespace: string;

  constructor(cluster: VolumeCluster, namespace: string) {
    this.#cluster = cluster;
    this.#namespace = namespace;
  }

  create(name: string, spec: Partial<ClaimSpec> = {}): Promise<Claim> {
    return claimsIn(this.#cluster.client).create({
      apiVersion: "v1",
      kind: "PersistentVolumeClaim",
      metadata: { namespace: this.#namespace, name },
      spec: { accessModes: ["ReadWriteOnce"], resources: { requests: { storage: "1Gi" } }, ...spec },
    });
  }

  async isBound(name: string): Promise<boolean> {
    return (await this.#find(name))?.status?.phase === "Bound";
  }

  async untilBound(name: string): Promise<void> {
    await expect.poll(() => this.isBound(name)).toBe(true);
  }

  async write(name: string, text: string): Promise<void> {
    await writeFile(await this.#file(name), text);
  }

  async read(name: string): Promise<string> {
    return readFile(await this.#file(name), "utf8");
  }

  /** Deletes a claim, and what only the controller manager of a cluster removes. */
  async delete(name: string): Promise<void> {
    const claims = claimsIn(this.#cluster.client);
    await claims.delete({ namespace: this.#namespace, name });
    await expect
      .poll(async () => {
        const claim = await this.#find(name);
        if (claim === undefined) return "gone";
        const finalizers = (claim.metadata.finalizers ?? []).filter((one) => one !== "kubernetes.io/pvc-protection");
        await claims.mergePatch(claim.metadata, { metadata: { finalizers } });
        return finalizers.join(" ");
      })
      .toBe("gone");
  }

  #find(name: string): Promise<Claim | undefined> {
    return claimsIn(this.#cluster.client).find({ namespace: this.#namespace, name });
  }

  async #file(name: string): Promise<string> {
    const { client, driver } = this.#cluster;
    await this.untilBound(name);
    const { volumeName = "" } = (await this.#find(name))?.spec ?? {};
    const { spec } = await volumesIn(client).get({ name: volumeName });
    return join(driver.directory, "volumes", spec.csi?.volumeHandle ?? "", "data", "text");
  }
}
