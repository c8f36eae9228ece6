import { isIPv6 } from "node:net";

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
