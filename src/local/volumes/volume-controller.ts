import * as z from "zod";
import { RametError } from "../../base/errors.ts";
import type { Log } from "../../base/log.ts";
import { driverName } from "../csi/unary.ts";
import { type ReconcileResult, runController, watching } from "../../kube/controller.ts";
import { EventRecorder } from "../../kube/events.ts";
import { Informer } from "../../kube/informer.ts";
import { keyOf } from "../../kube/object.ts";
import { type Claim, type Volume, volumesIn, claimsIn } from "../../kube/volumes/volumes.ts";
import {
  bind,
  provision,
  type VolumesOptions,
  requestedBytes,
  provisioningFinalizer,
  volumeFinalizer,
  volumeNameOf,
} from "./provision.ts";
import { bytesToQuantity, quantityToBytes } from "../../base/quantity.ts";
import { idOf } from "../csi/storage/records.ts";
import type { ResourceClient } from "../../kube/resource-client.ts";

export interface VolumeControllerOptions extends VolumesOptions {
  claims: Informer<Claim>;
  log: Log;
}

/** Provisions, expands and reclaims the volumes of a local cluster's claims. */
export class VolumeController {
  readonly #options: VolumeControllerOptions;
  readonly #volumes: Informer<Volume>;
  readonly #events: EventRecorder;
  /** The provisioning that runs, by the claim's UID: a Pod that starts and a reconcile may both request it. */
  readonly #running = new Map<string, Promise<Volume>>();

  constructor(options: VolumeControllerOptions) {
    const { client, log } = options;
    this.#options = options;
    this.#volumes = new Informer({ resource: volumesIn(client), log });
    this.#events = new EventRecorder({ client, reportingController: driverName, reportingInstance: "local", log });
  }

  /** Runs until `signal` aborts. The informer of the claims is its owner's. */
  async run(signal: AbortSignal): Promise<void> {
    const { client, claims, log } = this.#options;
    const { clock } = client;
    const ofClaim = ({ spec }: Volume): string[] => (spec.claimRef === undefined ? [] : [keyOf(spec.claimRef)]);
    const nameOf = ({ spec }: Claim): string[] => (spec.volumeName === undefined ? [] : [spec.volumeName]);
    await Promise.all([
      this.#volumes.run(signal),
      runController(
        {
          name: "local-volume-claims",
          watches: [watching(claims), watching(this.#volumes, ofClaim)],
          reconcile: (key) => this.#reconcileClaim(key),
          clock,
          // A copy may take long, and the driver limits their number.
          concurrency: 16,
          log,
        },
        signal,
      ),
      runController(
        {
          name: "local-volumes",
          watches: [watching(this.#volumes), watching(claims, nameOf)],
          reconcile: (key) => reclaim(this.#options, key),
          clock,
          log,
        },
        signal,
      ),
    ]);
    await this.#events.flush();
  }

  /**
   * The volume of a claim. One that is not bound is provisioned now.
   * @throws RametError
   */
  async volumeOf(claim: Claim): Promise<Volume> {
    const { volumeName, storageClassName } = claim.spec;
    const { name } = claim.metadata;
    if (volumeName === undefined && storageClassName !== "") return this.#provision(claim);
    if (volumeName === undefined) throw new RametError("Conflict", `The claim ${name} has no class and is not bound`);
    const volume = this.#volumes.store.get(volumeName) ?? (await this.#volumes.resource.find({ name: volumeName }));
    if (volume === undefined)
      throw new RametError("NotFound", `The PersistentVolume ${volumeName} of the claim ${name} does not exist`);
    if (volume.spec.claimRef?.uid === claim.metadata.uid) return volume;
    throw new RametError("Conflict", `The PersistentVolume ${volumeName} is bound to another claim than ${name}`);
  }

  async #reconcileClaim(key: string): Promise<ReconcileResult> {
    const claim = this.#options.claims.store.get(key);
    if (claim === undefined) return;
    if (claim.metadata.deletionTimestamp !== undefined) {
      await this.#running.get(claim.metadata.uid)?.catch(() => undefined);
      return abandon(this.#options, claim);
    }
    try {
      await this.#progress(claim);
    } catch (thrown) {
      const error = RametError.from(thrown);
      const reason = claim.status?.phase === "Bound" ? "VolumeResizeFailed" : "ProvisioningFailed";
      this.#events.record(claim, { type: "Warning", reason, action: "Provision", note: error.message });
      throw error;
    }
  }

  async #progress(claim: Claim): Promise<void> {
    const { client } = this.#options;
    const { volumeName, storageClassName } = claim.spec;
    const isBound = claim.status?.phase === "Bound";
    if (volumeName === undefined) {
      // Without a class: a PersistentVolume that names the claim.
      if (storageClassName !== "") await this.#provision(claim);
      else await this.#bindNamed(claim);
      return;
    }
    const volume = await this.#volumes.resource.find({ name: volumeName });
    if (volume === undefined) return;
    if (!isBound) await bind(client, claim, claimable(volume, claim));
    else if (volume.spec.csi?.driver === driverName) await expand(this.#options, claim, volume);
  }

  async #bindNamed(claim: Claim): Promise<void> {
    const { namespace, name } = claim.metadata;
    const volume = this.#volumes.store
      .list()
      .find(({ spec }) => spec.claimRef?.namespace === namespace && spec.claimRef?.name === name);
    if (volume !== undefined) await bind(this.#options.client, claim, claimable(volume, claim));
  }

  #provision(claim: Claim): Promise<Volume> {
    const { uid } = claim.metadata;
    const running =
      this.#running.get(uid) ??
      provision(this.#options, claim).finally(() => {
        this.#running.delete(uid);
      });
    this.#running.set(uid, running);
    return running;
  }
}

/** @throws RametError `Conflict` if the volume is reserved for another claim */
function claimable(volume: Volume, { metadata }: Claim): Volume {
  const { claimRef } = volume.spec;
  if (claimRef === undefined) return volume;
  const isOurs = claimRef.namespace === metadata.namespace && claimRef.name === metadata.name;
  if (isOurs && (claimRef.uid === undefined || claimRef.uid === metadata.uid)) return volume;
  throw new RametError(
    "Conflict",
    `Binding the claim ${metadata.name} failed: the PersistentVolume ${volume.metadata.name} is bound to another claim`,
  );
}

/** Makes the volume of a bound claim as large as the claim requests now, as external-resizer does on a cluster. */
async function expand({ client, driver }: VolumesOptions, claim: Claim, volume: Volume): Promise<void> {
  const requiredBytes = requestedBytes(claim);
  const has = quantityToBytes(claim.status?.capacity?.["storage"] ?? 0);
  if (requiredBytes <= has || volume.spec.csi === undefined) return;
  const { volumeHandle: volumeId } = volume.spec.csi;
  const request = { volumeId, capacityRange: { requiredBytes, limitBytes: 0 } };
  const { capacityBytes } = Expanded.parse(await driver.call("ControllerExpandVolume", request));
  const capacity = { storage: bytesToQuantity(capacityBytes) };
  await volumesIn(client).mergePatch(volume.metadata, { spec: { capacity } });
  await claimsIn(client).mergePatch(claim.metadata, { status: { capacity } }, { subresource: "status" });
}

const Expanded = z.object({ capacityBytes: z.number() });

/** The API server's finalizer: set on every volume, and removed by the controller manager on a cluster. */
const protection = "kubernetes.io/pv-protection";

/** Deletes the volume of a claim that is gone, with its data unless its policy is `Retain`. Repeated, it continues. */
async function reclaim(options: VolumesOptions, name: string): Promise<void> {
  const volumes = volumesIn(options.client);
  const volume = await volumes.find({ name });
  if (volume?.spec.csi?.driver !== driverName || (await isClaimed(options, volume))) return;
  const { volumeHandle: volumeId } = volume.spec.csi;
  const { metadata } = volume;
  const { uid } = metadata;
  const isUnneeded = isReleased(volume) && volume.spec.persistentVolumeReclaimPolicy === "Delete";
  if (isReleased(volume) && volume.status?.phase !== "Released")
    await volumes.mergePatch(metadata, { status: { phase: "Released" } }, { subresource: "status" });
  if (isUnneeded) {
    await options.driver.call("DeleteVolume", { volumeId });
    await volumes.delete(metadata, { uid });
  }
  if (isUnneeded || metadata.deletionTimestamp !== undefined) await release(volumes, volume);
}

/** Whether the volume had a claim, which is known to be gone. */
function isReleased({ spec }: Volume): boolean {
  return spec.claimRef?.uid !== undefined;
}

async function isClaimed({ client }: VolumesOptions, { spec }: Volume): Promise<boolean> {
  const { claimRef } = spec;
  if (claimRef?.uid === undefined) return false;
  const claims = claimsIn(client);
  return (await claims.find(claimRef))?.metadata.uid === claimRef.uid;
}

/** Lets a deleted object go. */
async function release(volumes: ResourceClient<Volume>, { metadata }: Volume): Promise<void> {
  const left = await volumes.find({ name: metadata.name });
  if (left?.metadata.uid !== metadata.uid) return;
  const finalizers = (left.metadata.finalizers ?? []).filter((one) => one !== protection && one !== volumeFinalizer);
  await volumes.mergePatch(left.metadata, {
    metadata: { resourceVersion: left.metadata.resourceVersion, finalizers },
  });
}

/** Deletes what was made for a claim that is deleted before it was bound, and then lets the claim go. */
async function abandon({ client, driver }: VolumesOptions, claim: Claim): Promise<void> {
  const { metadata } = claim;
  if (metadata.finalizers?.includes(provisioningFinalizer) !== true) return;
  const volumes = volumesIn(client);
  const name = volumeNameOf(claim);
  // Otherwise the volume is deleted with its PersistentVolume, when the claim is gone.
  if ((await volumes.find({ name })) === undefined)
    await driver.call("DeleteVolume", { volumeId: idOf("volume", name) });
  const finalizers = metadata.finalizers.filter((one) => one !== provisioningFinalizer);
  await claimsIn(client).mergePatch(metadata, { metadata: { resourceVersion: metadata.resourceVersion, finalizers } });
}
