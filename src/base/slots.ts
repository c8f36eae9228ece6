import { isIPv6 } from "node:net";
import type { Clock } from "./clock.ts";

export interface Take {
  /** How many slots are taken. @default 1 */
  weight?: number;
  /** The limit of this key. @default that of all keys */
  limit?: number;
}

/** Counts what is in use for each key, up to a limit. */
export class Slots {
  readonly #limit: number;
  readonly #used = new Map<string, number>();

  constructor(limit: number) {
    this.#limit = limit;
  }

  /** Takes slots. @returns the function that gives them back, or undefined if the key has too few free ones */
  take(key: string, { weight = 1, limit = this.#limit }: Take = {}): (() => void) | undefined {
    const used = this.#used.get(key) ?? 0;
    if (used + weight > limit) return undefined;
    this.#used.set(key, used + weight);
    return () => {
      const left = (this.#used.get(key) ?? weight) - weight;
      if (left > 0) this.#used.set(key, left);
      else this.#used.delete(key);
    };
  }
}

/** Takes slots of each key, or none. @returns the function that gives them back */
export function takeAll(...wanted: [slots: Slots, key: string, take?: Take][]): (() => void) | undefined {
  const releases = wanted.map(([slots, key, take]) => slots.take(key, take)).filter((release) => release !== undefined);
  const giveBack = (): void => {
    for (const release of releases) release();
  };
  if (releases.length === wanted.length) return giveBack;
  giveBack();
  return undefined;
}

/** The key of limits for an address: an IPv4 address, or the /64 network of an IPv6 address, because one client usually has all of it. */
export function limitedAddress(address: string): string {
  const [, mapped] = /^::ffff:(\d+\.\d+\.\d+\.\d+)$/i.exec(address) ?? [];
  if (mapped !== undefined || !isIPv6(address)) return mapped ?? address;
  const [before = "", after = ""] = (address.split("%")[0] ?? "").split("::");
  const [first, last] = [before, after].map((part) => part.split(":").filter((group) => group !== "")) as [
    string[],
    string[],
  ];
  const zeros = address.includes("::") ? Array<string>(Math.max(0, 8 - first.length - last.length)).fill("0") : [];
  const groups = [...first, ...zeros, ...last].slice(0, 4).map((group) => parseInt(group, 16).toString(16));
  return `${groups.join(":")}::/64`;
}

/** Limits how often each key does something. */
export class Rates {
  readonly #clock: Clock;
  /** By key, the time from which it is full again. */
  readonly #fullAt = new Map<string, number>();

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /**
   * @param burst how often at the same moment. @default as often as in a second
   * @returns 0, or the seconds after which the key may do it next
   */
  take(key: string, perSecond: number, burst = perSecond): number {
    if (perSecond === Infinity) return 0;
    const now = this.#clock.monotonicMilliseconds();
    const cost = 1000 / perSecond;
    const fullAt = Math.max(this.#fullAt.get(key) ?? 0, now);
    const waitMilliseconds = fullAt + cost - now - burst * cost;
    if (waitMilliseconds > 0.001) return Math.ceil(waitMilliseconds / 1000);
    this.#fullAt.set(key, fullAt + cost);
    if (this.#fullAt.size > mostKeys) for (const [other, at] of this.#fullAt) if (at <= now) this.#fullAt.delete(other);
    return 0;
  }
}

const mostKeys = 10_000;
