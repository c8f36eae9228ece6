import type { NamedSnapshot } from "../../api/kinds/named-snapshot.ts";
import { keyOf } from "../../kube/object.ts";
import { isBuildUnderWay } from "./build-turns.ts";

export interface UpgradeTurnsOptions {
  /** How many named snapshots of the cluster are captured again concurrently. */
  limit: () => number;
  /** Those that are being captured again, as the cache shows them. */
  upgrading: () => NamedSnapshot[];
}

/**
 * Limits how many named snapshots are captured again after an upgrade at the same time, in the whole cluster: users' builds and
 * sandboxes need the nodes too. Like {@link BuildTurns}, it survives a restart, because the objects show which ones are at work.
 */
export class UpgradeTurns {
  readonly #options: UpgradeTurnsOptions;
  /** Allowed by this process; the cache may not show them yet. */
  readonly #allowed = new Set<string>();
  readonly #waiting = new Set<string>();

  constructor(options: UpgradeTurnsOptions) {
    this.#options = options;
  }

  /** Takes a turn, or returns why the upgrade must wait. */
  take(snapshot: NamedSnapshot): string | undefined {
    const key = keyOf(snapshot.metadata);
    const busy = this.#busy();
    const ahead = [...this.#waiting].indexOf(key);
    const place = ahead < 0 ? this.#waiting.size : ahead;
    const limit = this.#options.limit();
    if (!busy.has(key) && busy.size + place >= limit) {
      this.#waiting.add(key);
      return `${busy.size} of at most ${limit} named snapshots are being captured again`;
    }
    this.#waiting.delete(key);
    this.#allowed.add(key);
    return undefined;
  }

  /** The named snapshot is not captured again, or no longer. Returns those that can start now. */
  release(key: string): string[] {
    const had = this.#allowed.delete(key);
    return this.#waiting.delete(key) || had ? this.next() : [];
  }

  /** The waiting ones that can start now. */
  next(): string[] {
    return [...this.#waiting].slice(0, Math.max(0, this.#options.limit() - this.#busy().size));
  }

  #busy(): Set<string> {
    return new Set([...this.#options.upgrading().map(({ metadata }) => keyOf(metadata)), ...this.#allowed]);
  }
}

/** Whether a status reports that a version is being captured again. */
export function isUpgrading({ status, metadata }: NamedSnapshot): boolean {
  return metadata.deletionTimestamp === undefined && status?.build?.upgrade !== undefined && isBuildUnderWay(status);
}
