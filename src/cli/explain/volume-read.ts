import { LeaseObject } from "../../kube/lease.ts";

import { coreResources } from "../../kube/resource-ref.ts";
import {
  type Snapshot,
  snapshotClassesIn,
  type SnapshotContent,
  snapshotContentsIn,
  snapshotsIn,
} from "../../kube/volumes/snapshots.ts";
import { type Claim, claimsIn, volumeResources, volumesIn } from "../../kube/volumes/volumes.ts";
import type { KubeClient } from "../../kube/kube-client.ts";
import type { VolumeQuota } from "../../preflight/cluster-facts.ts";
import { readQuotas } from "../../preflight/read-snapshots.ts";
import { type Read, valueOf } from "./facts.ts";
import type { FactReader } from "./read.ts";
import { sidecarLease } from "./snapshot-programs.ts";
import {
  type ClaimFacts,
  type ContentFacts,
  snapshotRestoredBy,
  type SnapshotPrograms,
  StorageClass,
  type VolumeSnapshotFacts,
} from "./volume-facts.ts";

const absent = { value: undefined };

/** An object that may not be named at all. */
interface MaybeNamed {
  namespace?: string | undefined;
  name: string | undefined;
}

/** Reads what explanations of volumes and snapshots need, with the user's own rights. */
export class VolumeFactReader {
  readonly #client: KubeClient;
  readonly #reader: FactReader;
  readonly #now: Date;
  /** Why facts are not known. */
  readonly unknown = new Set<string>();

  constructor(client: KubeClient, reader: FactReader, now: Date) {
    this.#client = client;
    this.#reader = reader;
    this.#now = now;
  }

  /** Two rounds of concurrent reads: what the snapshot names, then what its content and its claim name. */
  async snapshot(snapshot: Snapshot): Promise<VolumeSnapshotFacts> {
    const { name, namespace = "", deletionTimestamp } = snapshot.metadata;
    const [events, content, classes, source, claims, controller] = await Promise.all([
      this.events(namespace, name, "VolumeSnapshot"),
      this.#content(contentNameOf(snapshot)),
      this.#classes(),
      this.#claim({ namespace, name: snapshot.spec?.source.persistentVolumeClaimName }),
      deletionTimestamp === undefined ? absent : this.#claims(namespace),
      this.#lease("snapshot-controller-leader"),
    ]);
    const driver = this.#driverOf(snapshot, valueOf(content), valueOf(classes));
    const [contentEvents, volume, programs] = await Promise.all([
      this.#contentEvents(valueOf(content)?.metadata.name),
      this.#volume(valueOf(source)?.spec.volumeName),
      this.#programs(driver, controller),
    ]);
    return { now: this.#now, snapshot, events, content, contentEvents, classes, source, volume, claims, ...programs };
  }

  async content(content: SnapshotContent): Promise<ContentFacts> {
    const { name, namespace } = content.spec.volumeSnapshotRef;
    const [events, snapshot, classes, controller] = await Promise.all([
      this.#contentEvents(content.metadata.name),
      this.#snapshot({ namespace, name }),
      this.#classes(),
      this.#lease("snapshot-controller-leader"),
    ]);
    const programs = await this.#programs(content.spec.driver, controller);
    return { now: this.#now, content, events, snapshot, classes, ...programs };
  }

  async claim(claim: Claim): Promise<ClaimFacts> {
    const { name, namespace = "", deletionTimestamp } = claim.metadata;
    const restoredName = snapshotRestoredBy(claim);
    const [events, storageClass, restored, snapshots] = await Promise.all([
      this.events(namespace, name, "PersistentVolumeClaim"),
      this.#storageClass(claim.spec.storageClassName),
      claim.status?.phase === "Bound" ? absent : this.#snapshot({ namespace, name: restoredName }),
      deletionTimestamp === undefined ? absent : this.#snapshots(namespace),
    ]);
    const snapshot = valueOf(restored);
    return {
      now: this.#now,
      claim,
      events,
      storageClass,
      restored: snapshot && (await this.snapshot(snapshot)),
      restoredName: "unknown" in restored ? undefined : restoredName,
      snapshots,
    };
  }

  /** Those of one object, the latest first. */
  async events(namespace: string, name: string, kind: string): ReturnType<FactReader["events"]> {
    const read = this.#noted(await this.#reader.events(namespace, name));
    if ("unknown" in read) return read;
    return { value: read.value?.filter(({ regarding }) => regarding?.kind === kind) };
  }

  quotas(namespace: string): Promise<Read<VolumeQuota[]>> {
    return this.#read("resourcequotas", (signal) => readQuotas(this.#client, namespace, signal));
  }

  /** The Events of objects without a namespace are in `default`. */
  #contentEvents(name: string | undefined): ReturnType<FactReader["events"]> {
    return name === undefined ? Promise.resolve(absent) : this.events("default", name, "VolumeSnapshotContent");
  }

  async #programs(driver: string | undefined, controller: Read<LeaseObject>): Promise<SnapshotPrograms> {
    if (driver === undefined) return { controller, sidecar: absent, driver: absent };
    const drivers = this.#client.resource(volumeResources.drivers);
    const [sidecar, found] = await Promise.all([
      this.#lease(sidecarLease(driver)),
      this.#read("csidrivers", (signal) => drivers.find({ name: driver }, { signal })),
    ]);
    return { controller, sidecar, driver: found };
  }

  #driverOf(
    { spec }: Snapshot,
    content: SnapshotContent | undefined,
    classes: readonly { metadata: { name: string }; driver: string }[] | undefined,
  ): string | undefined {
    return (
      content?.spec.driver ?? classes?.find(({ metadata }) => metadata.name === spec?.volumeSnapshotClassName)?.driver
    );
  }

  #content(name: string): Promise<Read<SnapshotContent>> {
    return this.#read("volumesnapshotcontents", (signal) =>
      snapshotContentsIn(this.#client).find({ name }, { signal }),
    );
  }

  #classes() {
    return this.#read(
      "volumesnapshotclasses",
      async (signal) => (await snapshotClassesIn(this.#client).list({ signal })).items,
    );
  }

  #snapshot(at: MaybeNamed): Promise<Read<Snapshot>> {
    const { name, namespace } = at;
    if (name === undefined) return Promise.resolve(absent);
    return this.#read("volumesnapshots", (signal) => snapshotsIn(this.#client).find({ namespace, name }, { signal }));
  }

  #snapshots(namespace: string): Promise<Read<Snapshot[]>> {
    return this.#read(
      "volumesnapshots",
      async (signal) => (await snapshotsIn(this.#client).list({ namespace, signal })).items,
    );
  }

  #claim({ name, namespace }: MaybeNamed): Promise<Read<Claim>> {
    if (name === undefined) return Promise.resolve(absent);
    return this.#read("persistentvolumeclaims", (signal) =>
      claimsIn(this.#client).find({ namespace, name }, { signal }),
    );
  }

  #claims(namespace: string): Promise<Read<Claim[]>> {
    return this.#read(
      "persistentvolumeclaims",
      async (signal) => (await claimsIn(this.#client).list({ namespace, signal })).items,
    );
  }

  #volume(name: string | undefined) {
    if (name === undefined) return Promise.resolve(absent);
    return this.#read("persistentvolumes", (signal) => volumesIn(this.#client).find({ name }, { signal }));
  }

  #storageClass(name: string | undefined): Promise<Read<StorageClass>> {
    if (name === undefined) return Promise.resolve(absent);
    const ref = {
      group: "storage.k8s.io",
      version: "v1",
      plural: "storageclasses",
      kind: "StorageClass",
      namespaced: false,
    };
    return this.#read("storageclasses", (signal) =>
      this.#client.resource(ref, (value) => StorageClass.parse(value)).find({ name }, { signal }),
    );
  }

  /** In whichever namespace the program runs. */
  #lease(name: string): Promise<Read<LeaseObject>> {
    return this.#read("leases of all namespaces", async (signal) => {
      const leases = this.#client.resource(coreResources.leases, (value) => LeaseObject.parse(value));
      const { items } = await leases.list({ fieldSelector: `metadata.name=${name}`, signal });
      return items[0];
    });
  }

  async #read<T>(what: string, call: (signal: AbortSignal) => Promise<T | undefined>): Promise<Read<T>> {
    return this.#noted(await this.#reader.read(what, call));
  }

  #noted<T>(read: Read<T>): Read<T> {
    if ("unknown" in read) this.unknown.add(read.unknown);
    return read;
  }
}

/** The content that it is bound to or names. The snapshot-controller gives the one that it creates a name that is known before. */
function contentNameOf({ metadata, spec, status }: Snapshot): string {
  const named = status?.boundVolumeSnapshotContentName ?? spec?.source.volumeSnapshotContentName;
  return named ?? `snapcontent-${metadata.uid}`;
}
