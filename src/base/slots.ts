import { isIPv6 } from "node:net";

/** Counts what is in use for each key, up to a limit. */
export class Slots {
  readonly #limit: number;
  readonly #used = new Map<string, number>();

  constructor(limit: number) {
    this.#limit = limit;
  }

  /** Takes a slot. @returns the function that gives it back, or undefined if the key has no free slot */
  take(key: string): (() => void) | undefined {
    const used = this.#used.get(key) ?? 0;
    if (used >= this.#limit) return undefined;
    this.#used.set(key, used + 1);
    return () => {
      const left = (this.#used.get(key) ?? 1) - 1;
      if (left > 0) this.#used.set(key, left);
      else this.#used.delete(key);
    };
  }
}

/** Takes a slot for each key, or none. @returns the function that gives them back */
export function takeAll(...wanted: [slots: Slots, key: string][]): (() => void) | undefined {
  const releases = wanted.map(([slots, key]) => slots.take(key)).filter((release) => release !== undefined);
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
