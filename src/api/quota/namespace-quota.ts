import { RametError } from "../../base/errors.ts";
import { quantityToBytes } from "../../base/quantity.ts";
import { annotations } from "../names/labels.ts";

/** The quantities that are limited in each namespace. */
export const quotaNames = ["storeBytes", "checkpoints", "builds", "fetches"] as const;
export type QuotaName = (typeof quotaNames)[number];

/** The limits of a namespace. `Infinity`: unlimited. */
export type NamespaceQuota = Readonly<Record<QuotaName, number>>;

/**
 * The limits of a namespace without other settings. Only an administrator knows the size of the store, so its bytes are not
 * limited. The count bounds the objects in etcd. Builds and fetches above their limits wait.
 */
export const defaultQuota: NamespaceQuota = { storeBytes: Infinity, checkpoints: 10_000, builds: 10, fetches: 2 };

/** One item of the annotation, as a regular expression of CEL and JavaScript. The admission policy uses it too. */
export const quotaItemPattern =
  "^(storeBytes=(unlimited|[0-9]+([.][0-9]+)?([KMGTPE]i|[kMGTPE])?)|(checkpoints|builds|fetches)=(unlimited|[0-9]{1,15}))$";

/** How to write the annotation. */
export const quotaExample = "storeBytes=100Gi,checkpoints=500,builds=4,fetches=2";

/**
 * The quota of a namespace: its annotation `ramet.dev/quota`, and the defaults for what the annotation does not name.
 * @throws RametError `InvalidArgument` if the annotation cannot be read. The quota is then unknown
 */
export function quotaOf(
  namespace: { name: string; annotations?: Record<string, string> | undefined },
  defaults: NamespaceQuota = defaultQuota,
): NamespaceQuota {
  const items = (namespace.annotations?.[annotations.quota] ?? "")
    .split(",")
    .map((item) => item.trim())
    .filter((item) => item !== "");
  const invalid = items.find((item, at) => !itemPattern.test(item) || items.findIndex(sameName(item)) !== at);
  if (invalid !== undefined) {
    const what = `The annotation ${annotations.quota} of the namespace ${namespace.name} has an invalid item: ${invalid}`;
    throw new RametError("InvalidArgument", `${what}; until it is corrected, no checkpoint and no build starts there`, {
      hint: `Let an administrator write it as ${quotaExample}; each limit can be unlimited`,
    });
  }
  const given = items.map((item) => {
    const [name = "", value = ""] = item.split("=");
    return [name, parseLimit(name as QuotaName, value)] as const;
  });
  return { ...defaults, ...Object.fromEntries(given) };
}

const itemPattern = new RegExp(quotaItemPattern);

function sameName(item: string): (other: string) => boolean {
  const [name] = item.split("=");
  return (other) => other.split("=")[0] === name;
}

/**
 * Parses the limit of one quota: a number, a quantity of bytes, or `unlimited`.
 * @throws RametError `InvalidArgument`
 */
export function parseLimit(name: QuotaName, text: string, field: string = name): number {
  if (text === "unlimited") return Infinity;
  if (itemPattern.test(`${name}=${text}`)) return name === "storeBytes" ? quantityToBytes(text, field) : Number(text);
  const form = name === "storeBytes" ? "a quantity of bytes like 100Gi" : "a whole number";
  throw new RametError("InvalidArgument", `${field} is ${JSON.stringify(text)}, not ${form} or unlimited`);
}

/**
 * Parses limits that are given as flags or arguments.
 * @param names the names of the fields in error messages
 * @throws RametError `InvalidArgument`
 */
export function parseQuota(
  given: Partial<Record<QuotaName, string>>,
  names: Record<QuotaName, string>,
): Partial<NamespaceQuota> {
  const limits = quotaNames.flatMap((name) => {
    const text = given[name];
    return text === undefined ? [] : [[name, parseLimit(name, text, names[name])] as const];
  });
  return Object.fromEntries(limits);
}

/** A quota that does not allow something. */
export interface Exhausted {
  quota: QuotaName;
  namespace: string;
  limit: number;
  used: number;
  /** The remedy besides raising the limit. */
  remedy: string;
}

/** @param what failed, with the subject, like `The checkpoint was not taken` */
export function quotaExceeded(what: string, exhausted: Exhausted): RametError {
  return new RametError("QuotaExceeded", `${what}: ${describeQuota(exhausted)}`, { hint: remedyOf(exhausted) });
}

/** `the namespace a uses 10 of 10 builds`. */
export function describeQuota({ quota, namespace, limit, used }: Exhausted): string {
  return quota === "storeBytes"
    ? `the namespace ${namespace} uses ${readableBytes(used)} of ${readableBytes(limit)} of its quota ${quota}`
    : `the namespace ${namespace} uses ${used} of ${limit} of its quota ${quota}`;
}

export function remedyOf({ quota, remedy }: Exhausted): string {
  return `${remedy}, or ${raisingOf(quota)}`;
}

/** The remedy that tells the quotas apart. */
export function raisingOf(quota: QuotaName): string {
  return `let an administrator raise ${quota} in the annotation ${annotations.quota} of the namespace`;
}

/** Exact enough that used and limit differ where it matters. */
function readableBytes(bytes: number): string {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  const at = Math.min(units.length - 1, Math.max(0, Math.floor(Math.log2(Math.max(1, bytes)) / 10)));
  const value = bytes / 1024 ** at;
  return `${Number.isInteger(value) ? value : value.toFixed(2)} ${units[at] ?? ""}`;
}
