import { sandboxKind } from "../../src/api/kinds/sandbox.ts";
import { volumeKinds } from "../../src/cli/explain/volume-resources.ts";
import type { KubeObject } from "../../src/kube/object.ts";
import { coreResources, refOf } from "../../src/kube/resource-ref.ts";
import { snapshotResources } from "../../src/kube/volumes/snapshots.ts";
import { volumeResources } from "../../src/kube/volumes/volumes.ts";
import type { VolumeWorld } from "./volume-world.ts";

export const driver = "ebs.csi.aws.com";
const bound = "snapshot.storage.kubernetes.io/volumesnapshot-bound-protection";
const asSource = "snapshot.storage.kubernetes.io/volumesnapshot-as-source-protection";
const ofContent = "snapshot.storage.kubernetes.io/volumesnapshotcontent-bound-protection";

const groupSnapshots = volumeKinds.volumegroupsnapshot;

interface Metadata {
  finalizers?: string[];
  annotations?: Record<string, string>;
}

/** One test's objects in a namespace. Names of objects without a namespace begin with the namespace's. */
export class VolumeScene {
  readonly world: VolumeWorld;
  readonly namespace: string;

  constructor(world: VolumeWorld, namespace: string) {
    this.world = world;
    this.namespace = namespace;
  }

  /** A class of its own, which is no default. */
  async snapshotClass({ of = driver, suffix = "class", isDefault = false } = {}): Promise<string> {
    const name = `${this.namespace}-${suffix}`;
    const annotations = { "snapshot.storage.kubernetes.io/is-default-class": String(isDefault) };
    await this.world.create(snapshotResources.classes, {
      metadata: { name, annotations },
      driver: of,
      deletionPolicy: "Delete",
    });
    return name;
  }

  async storageClass({ provisioner = driver, volumeBindingMode = "Immediate" } = {}): Promise<string> {
    const name = `${this.namespace}-storage`;
    const ref = {
      group: "storage.k8s.io",
      version: "v1",
      plural: "storageclasses",
      kind: "StorageClass",
      namespaced: false,
    };
    await this.world.create(ref, { metadata: { name }, provisioner, volumeBindingMode });
    return name;
  }

  /** @param phase as the controllers of Kubernetes set it */
  claim(
    name: string,
    spec: object = {},
    { phase = "Pending", ...metadata }: Metadata & { phase?: string } = {},
  ): Promise<KubeObject> {
    const defaults = { accessModes: ["ReadWriteOnce"], resources: { requests: { storage: "1Gi" } } };
    return this.world.create(coreResources.persistentVolumeClaims, {
      metadata: { namespace: this.namespace, name, ...metadata },
      spec: { ...defaults, ...spec },
      status: { phase },
    });
  }

  /** A claim that is bound to a volume of the driver. */
  async boundClaim(name: string, metadata: Metadata = {}): Promise<KubeObject> {
    const volumeName = `${this.namespace}-${name}`;
    await this.world.create(volumeResources.volumes, {
      metadata: { name: volumeName },
      spec: {
        accessModes: ["ReadWriteOnce"],
        capacity: { storage: "1Gi" },
        csi: { driver, volumeHandle: `vol-${name}` },
      },
    });
    return this.claim(name, { volumeName }, { ...metadata, phase: "Bound" });
  }

  snapshot(
    name: string,
    spec: object = { source: { persistentVolumeClaimName: "data" } },
    more: Metadata & { status?: object } = {},
  ) {
    const { status, finalizers = [bound, asSource], annotations = {} } = more;
    return this.world.create(snapshotResources.snapshots, {
      metadata: { namespace: this.namespace, name, finalizers, annotations },
      spec,
      ...(status && { status }),
    });
  }

  /** The content that the snapshot-controller creates for a snapshot. */
  content(snapshot: KubeObject, more: Metadata & { spec?: object; status?: object } = {}): Promise<KubeObject> {
    const { spec = {}, status, finalizers = [ofContent], annotations = {} } = more;
    const { name, namespace, uid } = snapshot.metadata;
    return this.world.create(snapshotResources.contents, {
      metadata: { name: `snapcontent-${uid}`, finalizers, annotations },
      spec: {
        deletionPolicy: "Delete",
        driver,
        source: { volumeHandle: "vol-1" },
        sourceVolumeMode: "Filesystem",
        volumeSnapshotRef: { apiVersion: snapshot.apiVersion, kind: snapshot.kind, name, namespace, uid },
        ...spec,
      },
      ...(status && { status }),
    });
  }

  /** The status of a snapshot that is bound to its content. */
  async bind(snapshot: KubeObject, status: object = {}): Promise<void> {
    await this.world.client.resource(snapshotResources.snapshots).mergePatch(
      snapshot.metadata,
      {
        status: {
          boundVolumeSnapshotContentName: `snapcontent-${snapshot.metadata.uid}`,
          readyToUse: false,
          ...status,
        },
      },
      { subresource: "status" },
    );
  }

  /** The status of a snapshot without a content. */
  async report(snapshot: KubeObject, status: object): Promise<void> {
    const { snapshots } = snapshotResources;
    await this.world.client.resource(snapshots).mergePatch(snapshot.metadata, { status }, { subresource: "status" });
  }

  group(name: string): Promise<KubeObject> {
    const selector = { matchLabels: { app: "db" } };
    return this.world.create(groupSnapshots, {
      metadata: { namespace: this.namespace, name },
      spec: { source: { selector } },
    });
  }

  async reportOfGroup(group: KubeObject, status: object): Promise<void> {
    await this.world.client.resource(groupSnapshots).mergePatch(group.metadata, { status }, { subresource: "status" });
  }

  /** A Pod of the snapshot-controller that the kubelet restarted. */
  async controllerPod({ image, restarts }: { image: string; restarts: number }): Promise<void> {
    const name = "snapshot-controller";
    const lastState = { terminated: { exitCode: 137, reason: "OOMKilled" } };
    const container = {
      name,
      image,
      imageID: image,
      ready: true,
      restartCount: restarts,
      lastState,
      state: { running: {} },
    };
    await this.world.create(coreResources.pods, {
      metadata: { namespace: this.namespace, name, labels: { "app.kubernetes.io/name": name } },
      spec: { containers: [{ name, image }] },
      status: { phase: "Running", containerStatuses: [container] },
    });
  }

  /** A sandbox whose Pod has a container that the node cannot create. */
  async waitingSandbox(name: string, reason: string, message: string): Promise<void> {
    const { namespace } = this;
    const containers = [{ name: "main", image: "busybox" }];
    const condition = {
      type: "Ready",
      status: "False",
      reason: "Pending",
      message: "starting",
      lastTransitionTime: now(),
    };
    await this.world.create(refOf(sandboxKind), {
      metadata: { namespace, name },
      spec: { template: { spec: { containers } } },
      status: { observedGeneration: 1, phase: "Pending", conditions: [condition] },
    });
    const state = { waiting: { reason, message } };
    const scheduled = { type: "PodScheduled", status: "True", lastTransitionTime: now() };
    await this.world.create(coreResources.pods, {
      metadata: { namespace, name },
      spec: { containers },
      status: {
        phase: "Pending",
        conditions: [scheduled],
        containerStatuses: [{ ...containers[0], imageID: "", ready: false, restartCount: 0, state }],
      },
    });
  }

  /** A quota of five snapshots that are all used, as Kubernetes' controller counts them. */
  async fullQuota(name: string): Promise<void> {
    const limits = { "count/volumesnapshots.snapshot.storage.k8s.io": "5" };
    const ref = { group: "", version: "v1", plural: "resourcequotas", kind: "ResourceQuota", namespaced: true };
    const metadata = { namespace: this.namespace, name };
    await this.world.create(ref, { metadata, spec: { hard: limits }, status: { hard: limits, used: limits } });
  }

  async finalizers(name: string): Promise<string[] | undefined> {
    const at = { namespace: this.namespace, name };
    return (await this.world.client.resource(snapshotResources.snapshots).get(at)).metadata.finalizers;
  }

  /** Starts a deletion, which the finalizers keep. */
  async remove(object: KubeObject): Promise<void> {
    const { snapshots, contents } = snapshotResources;
    const ref = [snapshots, contents, coreResources.persistentVolumeClaims].find(({ kind }) => kind === object.kind);
    if (ref === undefined) throw new Error(`no resource of ${object.kind ?? ""}`);
    await this.world.client.resource(ref).delete(object.metadata);
  }
}

function now(): string {
  return new Date().toISOString();
}

/** An error as a controller records it. */
export function error(message: string): object {
  return { error: { message, time: new Date().toISOString() } };
}

export const handle = { snapshotHandle: "snap-0123456789abcdef0", restoreSize: 1_073_741_824 };
