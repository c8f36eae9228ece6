import { volumeClaims } from "../../api/pod/volume-claims.ts";
import { RametError } from "../../base/errors.ts";
import type { Informer } from "../../kube/informer.ts";
import { keyOf } from "../../kube/object.ts";
import type { Claim } from "../../kube/volumes/volumes.ts";
import { hasEnded, type NodePod } from "./pod.ts";

export interface ClaimsOptions {
  claims: Informer<Claim>;
  pods: Informer<NodePod>;
  /** Provisions volumes, and knows their directories. */
  volumes: { directoryOf(claim: Claim): Promise<string> };
}

/** Keeps a claim while a Pod uses it. On a cluster, the controller manager removes it. */
const protection = "kubernetes.io/pvc-protection";

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

  /** Releases a deleted claim that no Pod uses. */
  async reconcile(key: string): Promise<void> {
    const claim = this.#options.claims.store.get(key);
    if (claim?.metadata.deletionTimestamp === undefined || this.#usersOf(claim).length > 0) return;
    await this.#options.claims.resource.removeFinalizer(claim, protection);
  }

  /** The keys of the claims that a Pod mounts. */
  static keysOf({ metadata, spec }: NodePod): string[] {
    const { namespace } = metadata;
    return volumeClaims(spec.volumes ?? [], metadata.name).map(({ claim }) => keyOf({ namespace, name: claim }));
  }

  async #find(at: { namespace: string | undefined; name: string }): Promise<Claim | undefined> {
    return this.#options.claims.store.get(keyOf(at)) ?? (await this.#options.claims.resource.find(at));
  }

  /** A kubelet's Pods that have ended no longer use their claims. */
  #usersOf({ metadata }: Claim): NodePod[] {
    const key = keyOf(metadata);
    return this.#options.pods.store.list().filter((pod) => !hasEnded(pod) && Claims.keysOf(pod).includes(key));
  }
}

function isExclusive({ spec }: Claim): boolean {
  return spec.accessModes.length > 0 && spec.accessModes.every((mode) => mode === "ReadWriteOncePod");
}
