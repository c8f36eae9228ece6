import type { NamedSnapshot } from "../../api/kinds/named-snapshot.ts";
import type { NamedSnapshotStatus } from "../../api/kinds/named-snapshot-status.ts";
import { annotations } from "../../api/names/labels.ts";
import { describeQuota } from "../../api/quota/namespace-quota.ts";
import { findCondition } from "../../kube/conditions.ts";
import { keyOf } from "../../kube/object.ts";
import type { NamespaceQuotas } from "../cluster/namespace-quotas.ts";

export interface BuildTurnsOptions {
  quotas: Pick<NamespaceQuotas, "of">;
  /** The newest known version of each named snapshot of a namespace. */
  snapshotsIn: (namespace: string) => NamedSnapshot[];
}

/**
 * Limits how many named snapshots of a namespace build concurrently. Those that build are known from their conditions, and from
 * the decisions of this process that the cache does not show yet, so a restart changes nothing. The others wait in the order in
 * which they asked; after a restart, in any order. A lowered limit stops no build.
 */
export class BuildTurns {
  readonly #options: BuildTurnsOptions;
  /** By namespace, the keys of the builds that this process has allowed. */
  readonly #allowed = new Map<string, Set<string>>();
  readonly #waiting = new Map<string, Set<string>>();

  constructor(options: BuildTurnsOptions) {
    this.#options = options;
  }

  /** Takes a turn, or returns why the build must wait. Nothing is awaited, so two builds cannot take the same turn. */
  take(snapshot: NamedSnapshot): string | undefined {
    const { namespace } = snapshot.metadata;
    const key = keyOf(snapshot.metadata);
    const allowed = setOf(this.#allowed, namespace);
    const waiting = setOf(this.#waiting, namespace);
    const why = allowed.has(key) || isBuilding(snapshot) ? undefined : this.#obstacle(namespace, key);
    if (why === undefined) waiting.delete(key);
    (why === undefined ? allowed : waiting).add(key);
    return why;
  }

  /** The named snapshot does not build, or no longer exists. Returns the builds that can start now. */
  release(key: string): string[] {
    const [namespace = ""] = key.split("/");
    const wasAllowed = removeFrom(this.#allowed, namespace, key);
    const waited = removeFrom(this.#waiting, namespace, key);
    return wasAllowed || waited ? this.next(namespace) : [];
  }

  /** The waiting builds of a namespace that can start. */
  next(namespace: string): string[] {
    const waiting = this.#waiting.get(namespace);
    const quota = this.#options.quotas.of(namespace);
    if (waiting === undefined || "problem" in quota) return [];
    const free = quota.builds - this.#building(namespace).size;
    return free <= 0 ? [] : [...waiting].slice(0, free);
  }

  #obstacle(namespace: string, key: string): string | undefined {
    const quota = this.#options.quotas.of(namespace);
    if ("problem" in quota) return quota.problem.describe();
    const building = this.#building(namespace);
    const [...before] = this.#waiting.get(namespace) ?? [];
    const ahead = before.includes(key) ? before.indexOf(key) : before.length;
    if (building.size + ahead < quota.builds) return undefined;
    const exhausted = { quota: "builds", namespace, limit: quota.builds, used: building.size, remedy: "" } as const;
    const names = [...building].map((one) => one.slice(namespace.length + 1)).sort();
    return `The build waits: ${describeQuota(exhausted)} (${listed(names)}). It starts when one of them ends, or when an administrator raises builds in the annotation ${annotations.quota} of the namespace`;
  }

  #building(namespace: string): Set<string> {
    const shown = this.#options
      .snapshotsIn(namespace)
      .filter(isBuilding)
      .map(({ metadata }) => keyOf(metadata));
    return new Set([...shown, ...(this.#allowed.get(namespace) ?? [])]);
  }
}

/** Whether a status reports a build under way, as opposed to one that waits. */
export function isBuildUnderWay(status: NamedSnapshotStatus | undefined): boolean {
  const building = findCondition(status?.conditions, "Building");
  return building?.status === "True" && building.reason !== "BuildQuotaReached";
}

function isBuilding({ metadata, status }: NamedSnapshot): boolean {
  return metadata.deletionTimestamp === undefined && isBuildUnderWay(status);
}

function listed(names: readonly string[]): string {
  const shown = names.slice(0, mostNames).join(", ");
  return names.length > mostNames ? `${shown}, …` : shown || "none is allowed";
}

const mostNames = 5;

function removeFrom(sets: Map<string, Set<string>>, namespace: string, key: string): boolean {
  const set = sets.get(namespace);
  const had = set?.delete(key) ?? false;
  if (set?.size === 0) sets.delete(namespace);
  return had;
}

function setOf(sets: Map<string, Set<string>>, namespace: string): Set<string> {
  const found = sets.get(namespace) ?? new Set();
  sets.set(namespace, found);
  return found;
}
