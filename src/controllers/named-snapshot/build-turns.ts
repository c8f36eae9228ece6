import type { NamedSnapshot } from "../../api/kinds/named-snapshot.ts";
import type { NamedSnapshotStatus } from "../../api/kinds/named-snapshot-status.ts";
import { annotations } from "../../api/names/labels.ts";
import { describeQuota } from "../../api/quota/namespace-quota.ts";
import { findCondition } from "../../kube/conditions.ts";
import { keyOf, nameOfKey } from "../../kube/object.ts";
import type { NamespaceQuotas } from "../cluster/resources.ts";

export interface TurnsOptions {
  /** The keys that share a limit with this one. */
  groupOf: (key: string) => string;
  /** How many named snapshots of a group may have a turn. */
  limit: (group: string) => number;
  /** The keys of those that have one, as the cache shows them. */
  shown: (group: string) => readonly string[];
  /** Why the others wait. */
  why: (group: string, busy: ReadonlySet<string>) => string;
}

/**
 * Limits how many named snapshots are at work concurrently. Those at work are known from their conditions, and from the decisions of
 * this process that the cache does not show yet, so a restart changes nothing. The others wait in the order in which they asked;
 * after a restart, in any order. A lowered limit stops nothing.
 */
export class Turns {
  readonly #options: TurnsOptions;
  readonly #allowed = new Set<string>();
  readonly #waiting = new Set<string>();

  constructor(options: TurnsOptions) {
    this.#options = options;
  }

  /** Takes a turn, or returns why the key must wait. Nothing is awaited, so two keys cannot take the same turn. */
  take(key: string): string | undefined {
    const { groupOf, limit, why } = this.#options;
    const group = groupOf(key);
    const busy = this.#busy(group);
    const waiting = this.#of(group, this.#waiting);
    const ahead = waiting.includes(key) ? waiting.indexOf(key) : waiting.length;
    if (!busy.has(key) && busy.size + ahead >= limit(group)) {
      this.#waiting.add(key);
      return why(group, busy);
    }
    this.#waiting.delete(key);
    this.#allowed.add(key);
    return undefined;
  }

  /** The named snapshot is not at work, or no longer exists. Returns the keys that can start now. */
  release(key: string): string[] {
    const wasAllowed = this.#allowed.delete(key);
    const waited = this.#waiting.delete(key);
    return wasAllowed || waited ? this.next(this.#options.groupOf(key)) : [];
  }

  /** The waiting keys of a group that can start. */
  next(group: string): string[] {
    const free = this.#options.limit(group) - this.#busy(group).size;
    return this.#of(group, this.#waiting).slice(0, Math.max(0, free));
  }

  #busy(group: string): Set<string> {
    return new Set([...this.#options.shown(group), ...this.#of(group, this.#allowed)]);
  }

  #of(group: string, keys: ReadonlySet<string>): string[] {
    return [...keys].filter((key) => this.#options.groupOf(key) === group);
  }
}

/** The builds of each namespace. @param snapshotsIn the newest known version of each named snapshot */
export function buildTurns(
  quotas: Pick<NamespaceQuotas, "of">,
  snapshotsIn: (namespace: string) => NamedSnapshot[],
): Turns {
  return new Turns({
    groupOf: (key) => nameOfKey(key).namespace ?? "",
    limit: (namespace) => {
      const quota = quotas.of(namespace);
      return "problem" in quota ? 0 : quota.builds;
    },
    shown: (namespace) => keysOf(snapshotsIn(namespace).filter(isBuilding)),
    why: (namespace, busy) => {
      const quota = quotas.of(namespace);
      if ("problem" in quota) return quota.problem.describe();
      const exhausted = { quota: "builds", namespace, limit: quota.builds, used: busy.size, remedy: "" } as const;
      const names = [...busy].map((key) => nameOfKey(key).name).sort();
      return `The build waits: ${describeQuota(exhausted)} (${listed(names)}). It starts when one of them ends, or when an administrator raises builds in the annotation ${annotations.quota} of the namespace`;
    },
  });
}

/** The group of all upgrades. */
export const cluster = "";

/**
 * The named snapshots that are captured again after an upgrade, in the whole cluster: users' builds and sandboxes need the nodes too.
 * @param upgrading those that are being captured again, as the cache shows them
 */
export function upgradeTurns(limit: () => number, upgrading: () => NamedSnapshot[]): Turns {
  return new Turns({
    groupOf: () => cluster,
    limit,
    shown: () => keysOf(upgrading()),
    why: (_, busy) => `${busy.size} of at most ${limit()} named snapshots are being captured again`,
  });
}

function keysOf(snapshots: readonly NamedSnapshot[]): string[] {
  return snapshots.map(({ metadata }) => keyOf(metadata));
}

/** Whether a status reports a build under way, as opposed to one that waits. */
export function isBuildUnderWay(status: NamedSnapshotStatus | undefined): boolean {
  const building = findCondition(status?.conditions, "Building");
  return building?.status === "True" && building.reason !== "BuildQuotaReached";
}

/** Whether a status reports that a version is being captured again. */
export function isUpgrading(snapshot: NamedSnapshot): boolean {
  return snapshot.status?.build?.upgrade !== undefined && isBuilding(snapshot);
}

function isBuilding({ metadata, status }: NamedSnapshot): boolean {
  return metadata.deletionTimestamp === undefined && isBuildUnderWay(status);
}

function listed(names: readonly string[]): string {
  const shown = names.slice(0, mostNames).join(", ");
  return names.length > mostNames ? `${shown}, …` : shown || "none is allowed";
}

const mostNames = 5;
