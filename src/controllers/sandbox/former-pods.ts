import type { RametSandboxStatus, Sandbox } from "../../api/kinds/sandbox.ts";
import { isLocalNode } from "../../api/names/system-names.ts";
import type { Pod } from "../../api/schema/pod.ts";
import { type SandboxRef, sandboxRef } from "../../backends/runtime.ts";
import type { Informer } from "../../kube/informer.ts";
import { keyOf } from "../../kube/object.ts";
import { isEnded, isEndedUnseen } from "../cluster/pod-facts.ts";
import type { Node } from "../nodes/nodes.ts";

/** A cell that has proven which Pod it is in. */
export type KnownCell = NonNullable<RametSandboxStatus["startingPod"]>;

interface FormerPodsOptions {
  pods: Pick<Informer<Pod>, "store">;
  nodes: Pick<Informer<Node>, "store">;
}

/** More Pods do not end between two reconciles of a sandbox. */
const mostEnded = 10_000;

/** Knows in which removed Pods a sandbox may still run: their cells were identified, and their nodes have not reported their end. */
export class FormerPods {
  /** By the key of the sandbox: the cell in which it was last started. */
  readonly #started = new Map<string, KnownCell>();
  /** The UIDs of Pods of which `ended` was called. The oldest are dropped first. */
  readonly #ended = new Set<string>();
  readonly #nodes: FormerPodsOptions["nodes"];

  constructor({ pods, nodes }: FormerPodsOptions) {
    this.#nodes = nodes;
    pods.store.subscribe(({ type, object: pod }) => {
      // The node of a local cluster removes a Pod that it has ended, and cannot be away.
      const isLocal = isLocalNode(nodes.store.get(pod.spec.nodeName ?? "")?.metadata.labels);
      const isReported = isEnded(pod) && !isEndedUnseen(pod);
      if (isReported || (type === "deleted" && isLocal)) this.ended(pod.metadata.uid);
    });
  }

  /** Nothing runs in the Pod with this UID any more, or its cell was asked to stop for as long as that can matter. */
  ended(podUid: string): void {
    this.#ended.add(podUid);
    const [oldest] = this.#ended;
    if (this.#ended.size > mostEnded && oldest !== undefined) this.#ended.delete(oldest);
  }

  /**
   * Remembers the cell in which the sandbox is being started, before it gets anything.
   * @returns what the status must say before that, as this process and the node may die together. Undefined: nothing, because the node
   * cannot be away
   */
  starts({ metadata }: Sandbox, target: SandboxRef, nodeName = ""): KnownCell | undefined {
    const cell = cellOf(target);
    if (cell !== undefined) this.#started.set(keyOf(metadata), cell);
    return isLocalNode(this.#nodes.store.get(nodeName)?.metadata.labels) ? undefined : cell;
  }

  /** Of a sandbox without a Pod: those in which it may still run. @param captured the UID of the Pod that a capture has left paused */
  of(sandbox: Sandbox, captured: string | undefined): KnownCell[] {
    const cells = [
      cellOf(sandboxRef(sandbox)),
      sandbox.status?.ramet?.startingPod,
      this.#started.get(keyOf(sandbox.metadata)),
    ];
    const byUid = new Map(cells.flatMap((cell) => (cell === undefined ? [] : [[cell.podUID, cell]])));
    return [...byUid.values()].filter(({ podUID }) => podUID !== captured && !this.#ended.has(podUID));
  }

  /** The cell in this Pod, if the sandbox is being started there. */
  startingIn({ metadata }: Pod): KnownCell | undefined {
    const cell = this.#started.get(keyOf(metadata));
    return cell?.podUID === metadata.uid ? cell : undefined;
  }

  forget(key: string): void {
    this.#started.delete(key);
  }
}

function cellOf({ podUid, podIp, cellKey }: SandboxRef): KnownCell | undefined {
  return podUid === undefined || cellKey === undefined || podIp === ""
    ? undefined
    : { podUID: podUid, podIP: podIp, cellKey };
}
