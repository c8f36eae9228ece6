import * as z from "zod";
import type { SandboxSet } from "../../api/kinds/sandbox-set.ts";
import type { Sandbox } from "../../api/kinds/sandbox.ts";
import { labels } from "../../api/names/labels.ts";
import { apiVersion } from "../../api/schema/kind.ts";
import { selects, Selector } from "../../api/state/target.ts";
import type { Clock } from "../../base/clock.ts";
import { RametError, unlessCode } from "../../base/errors.ts";
import type { Log } from "../../base/log.ts";
import type { KubeClient } from "../../kube/kube-client.ts";
import { AnyObject, controllerOf, keyOf } from "../../kube/object.ts";
import type { ResourceClient } from "../../kube/resource-client.ts";
import { coreResources } from "../../kube/resource-ref.ts";
import type { Cache } from "../cluster/cache.ts";

/** An autoscaler tries to evict a Pod for two minutes, and a drain that finds no other node must not wait for ever. */
const holdMilliseconds = 60_000;
/** After an error. */
const againMilliseconds = 5_000;

interface Held {
  /** Since when the node of a sandbox leaves, by the sandbox's name. */
  since: ReadonlyMap<string, number>;
  /** What the budget selects. Undefined: an earlier process may have left one. */
  names: readonly string[] | undefined;
}

/**
 * PodDisruptionBudgets that keep ready sandboxes of sets on leaving nodes until their sets have made others. They exist only meanwhile: a
 * permanent one would keep autoscalers from removing nodes, and would count claimed sandboxes, whose Pods have the same labels.
 */
export class Budgets {
  readonly #resource: ResourceClient<Budget>;
  readonly #parts: { cache: Cache; clock: Clock; log: Log };
  /** By the UIDs of sets. */
  readonly #held = new Map<string, Held>();

  constructor({ client, ...parts }: { client: KubeClient; cache: Cache; clock: Clock; log: Log }) {
    this.#resource = client.resource(coreResources.budgets, (value) => Budget.parse(value));
    this.#parts = parts;
  }

  /** @param leaving the ready sandboxes of the set on leaving nodes. @returns when this must be repeated; undefined: after a change */
  async keep(set: SandboxSet, leaving: readonly Sandbox[]): Promise<number | undefined> {
    const { clock, log } = this.#parts;
    const { uid } = set.metadata;
    const before = this.#held.get(uid);
    const now = clock.monotonicMilliseconds();
    const { names, since, leftMilliseconds } = planBudget(
      leaving.map(({ metadata }) => metadata.name),
      before?.since ?? new Map<string, number>(),
      now,
    );
    try {
      if (!isEqual(before?.names, names)) await this.#write(set, names);
      this.#held.set(uid, { since, names });
      return leftMilliseconds;
    } catch (error) {
      this.#held.set(uid, { since, names: undefined });
      const { code, message } = RametError.from(error);
      log.warn({ set: keyOf(set.metadata), error: message }, "cannot write the PodDisruptionBudget of a set");
      if (code !== "Forbidden") return againMilliseconds;
      this.#held.set(uid, { since, names });
      return undefined;
    }
  }

  forget(setUid: string): void {
    this.#held.delete(setUid);
  }

  async #write({ metadata }: SandboxSet, wanted: readonly string[]): Promise<void> {
    const { namespace, name, uid } = metadata;
    const at = { namespace, name: `${name}-leaving` };
    // A cluster on one machine does not serve them.
    const { items } = (await this.#resource.list({ namespace }).catch(unlessCode("NotFound"))) ?? { items: [] };
    const own = items.find((one) => one.metadata.name === at.name && controllerOf(one)?.uid === uid);
    // The eviction API refuses every eviction of a Pod with two budgets.
    const others = items.filter((one) => one !== own);
    const names = wanted.filter((sandbox) => {
      const pod = this.#parts.cache.pod(keyOf({ namespace, name: sandbox }));
      return (
        pod !== undefined &&
        !others.some(({ spec }) => spec.selector && selects(spec.selector, pod.metadata.labels ?? {}))
      );
    });
    if (names.length === 0) {
      if (own !== undefined) await this.#resource.delete(own.metadata, { uid: own.metadata.uid });
      return;
    }
    const owner = { apiVersion, kind: "SandboxSet", name, uid, controller: true, blockOwnerDeletion: false };
    const spec = {
      minAvailable: names.length,
      selector: { matchExpressions: [{ key: labels.sandboxName, operator: "In", values: names }] },
      unhealthyPodEvictionPolicy: "AlwaysAllow",
    };
    const manifest = {
      apiVersion: "policy/v1",
      kind: "PodDisruptionBudget",
      metadata: { ...at, ownerReferences: [owner] },
      spec,
    };
    await this.#resource.apply(manifest, { fieldManager: "ramet-sandboxset" }).catch(unlessCode("NotFound"));
  }
}

const Budget = AnyObject.extend({ spec: z.object({ selector: Selector.nullish() }) });
type Budget = z.infer<typeof Budget>;

/** Which of the sandboxes whose nodes leave are kept now. Pure. @param before since when that is so, of those that are known */
export function planBudget(leaving: readonly string[], before: ReadonlyMap<string, number>, now: number) {
  const since = new Map(leaving.map((name) => [name, before.get(name) ?? now]));
  const left = [...since].map(([name, at]) => ({ name, milliseconds: at + holdMilliseconds - now }));
  const held = left.filter(({ milliseconds }) => milliseconds > 0);
  return {
    names: held.map(({ name }) => name).sort(),
    since,
    ...(held.length > 0 && { leftMilliseconds: Math.min(...held.map(({ milliseconds }) => milliseconds)) }),
  };
}

function isEqual(before: readonly string[] | undefined, names: readonly string[]): boolean {
  return before?.length === names.length && before.every((name, at) => name === names[at]);
}
