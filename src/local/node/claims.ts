import { volumeClaims } from "../../api/pod/volume-claims.ts";
import { RametError } from "../../base/errors.ts";
import type { ReconcileResult } from "../../kube/controller.ts";
import type { Informer } from "../../kube/informer.ts";
import type { KubeClient } from "../../kube/kube-client.ts";
import { controllerOf, keyOf } from "../../kube/object.ts";
import type { Claim } from "../../kube/volumes/volumes.ts";
import { hasEnded, type NodePod } from "./pod.ts";

export interface ClaimsOptions {
  client: KubeClient;
  claims: Informer<Claim>;
  pods: Informer<NodePod>;
  /** Provisions volumes, and knows their directories. */
  volumes: { directoryOf(claim: Claim): Promise<string> };
}

/** Keeps a claim while a Pod uses it. On a cluster, the controller manager removes it. */
const protection = "kubernetes.io/pvc-protection";
/** How often the owner of a claim is looked up. */
const ownerCheckMilliseconds = 15_000;

/** Mounts PersistentVolumeClaims on the local node, and keeps those that a Pod uses. */
export class Claims {
  readonly #options: ClaimsOptions;

  constructor(options: ClaimsOptions) {
    this.#options = options;
  }

  /**
   * The directory of a claim that a Pod mounts.
   * @throws RametError `NotFound`; `InvalidArgument` for a block device; `Conflict` if another Pod has it for itself
   */
  async directoryOf(pod: NodePod, name: string): Promise<string> {
    const { namespace } = pod.metadata;
    const claim = await this.#find({ namespace, name });
    const what = `Mounting the PersistentVolumeClaim ${name} failed`;
    if (claim === undefined || claim.metadata.deletionTimestamp !== undefined) {
      const why = claim === undefined ? "it does not exist" : "it is being deleted";
      throw new RametError("NotFound", `${what}: ${why}`, { hint: `Create it in namespace ${namespace}` });
    }
    if (claim.spec.volumeMode === "Block")
      throw new RametError("InvalidArgument", `${what}: the local node has no block devices`, {
        hint: "Set its volumeMode to Filesystem",
      });
    const user = isExclusive(claim)
      ? this.#usersOf(claim).find(({ metadata }) => metadata.uid !== pod.metadata.uid)
      : undefined;
    if (user !== undefined)
      throw new RametError(
        "Conflict",
        `${what}: its access mode is ReadWriteOncePod, and ${user.metadata.name} uses it`,
      );
    return this.#options.volumes.directoryOf(claim);
  }

  /** Releases a deleted claim that no Pod uses, and deletes one whose owner was deleted. */
  async reconcile(key: string): Promise<ReconcileResult> {
    const claim = this.#options.claims.store.get(key);
    if (claim === undefined) return;
    if (claim.metadata.deletionTimestamp !== undefined) return this.#release(claim);
    if (await this.#isOwnerGone(claim)) {
      await this.#resource.delete(claim.metadata, { uid: claim.metadata.uid });
      return;
    }
    return controllerOf(claim) === undefined ? undefined : { requeueAfterMilliseconds: ownerCheckMilliseconds };
  }

  /** The keys of the claims that a Pod mounts. */
  static keysOf({ metadata, spec }: NodePod): string[] {
    const { namespace } = metadata;
    return volumeClaims(spec.volumes ?? [], metadata.name).map(({ claim }) => keyOf({ namespace, name: claim }));
  }

  async #find(at: { namespace: string | undefined; name: string }): Promise<Claim | undefined> {
    return this.#options.claims.store.get(keyOf(at)) ?? (await this.#resource.find(at));
  }

  /** A kubelet's Pods that have ended no longer use their claims. */
  #usersOf({ metadata }: Claim): NodePod[] {
    const key = keyOf(metadata);
    return this.#options.pods.store.list().filter((pod) => !hasEnded(pod) && Claims.keysOf(pod).includes(key));
  }

  async #release(claim: Claim): Promise<void> {
    const { finalizers = [], resourceVersion } = claim.metadata;
    if (!finalizers.includes(protection) || this.#usersOf(claim).length > 0) return;
    const kept = finalizers.filter((one) => one !== protection);
    await this.#resource.mergePatch(claim.metadata, { metadata: { resourceVersion, finalizers: kept } });
  }

  /** On a cluster, the garbage collector deletes what a deleted object owned. */
  async #isOwnerGone(claim: Claim): Promise<boolean> {
    const owner = controllerOf(claim);
    if (owner?.kind !== "Sandbox") return false;
    const [group = "", version = ""] = owner.apiVersion.split("/");
    const ref = { group, version, plural: "sandboxes", kind: owner.kind, namespaced: true };
    const found = await this.#options.client
      .resource(ref)
      .find({ namespace: claim.metadata.namespace, name: owner.name });
    return found?.metadata.uid !== owner.uid;
  }

  get #resource() {
    return this.#options.claims.resource;
  }
}

function isExclusive({ spec }: Claim): boolean {
  return spec.accessModes.length > 0 && spec.accessModes.every((mode) => mode === "ReadWriteOncePod");
}
