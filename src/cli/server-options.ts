import { isIP, isIPv4 } from "node:net";
import { type Command, InvalidArgumentError, Option } from "commander";
import { engineIdPattern } from "../api/engine/engine.ts";
import { isRegistryHost } from "../api/names/image-reference.ts";
import { besideProjects, cellUserNamespaces } from "../api/names/system-names.ts";
import { defaultQuota, type QuotaName } from "../api/quota/namespace-quota.ts";
import { parseDuration } from "../base/duration.ts";
import type { RegistrySettings } from "../install/install-options.ts";
import { parsed } from "./options.ts";

/** The forms of a bucket's address in each cloud. */
export const storeAddresses =
  "s3://bucket/prefix?region=…&endpoint=…&path-style=true, gs://bucket/prefix, azblob://container/prefix?account=…";

/** Selects the project beside whose controllers Ramet works. */
export function besideOption(): Option {
  return new Option(
    "--beside <project>",
    "work beside the controllers of this project: only named snapshots and garbage collection",
  ).choices(besideProjects);
}

/** The options without an effect where other controllers run the sandboxes and store their checkpoints. */
export const flagsOfCells = [
  "cellImage",
  "store",
  "storeDirectory",
  "encryptionSecret",
  "cellSeccompProfile",
  "cellUserNamespaces",
  "cellEngine",
  "earlierCellImage",
  "concurrentUpgrades",
  "engineCheckInterval",
  "dnsUpstream",
  "clusterDomain",
  "egressDefault",
  "egressAllow",
  "egressDeny",
  "stepCacheBytes",
  "servedNamespace",
  "verifyRestores",
  "privateRegistry",
  "insecureRegistry",
  "imageLookup",
  "pullTimeout",
  "namespaceStoreBytes",
  "namespaceCheckpoints",
  "importVolumes",
];

export const importVolumesHelp =
  "let users with the verb import on checkpoints import volumes by the handles of their snapshots (default: nobody can)";

export const namespaceSelectorHelp =
  "the labels of the namespaces that the controllers serve, such as team=a or !legacy (default: all namespaces)";

/** The id of an engine, such as `3fb1c0a9d2e4`. */
export function engineOption(text: string): string {
  if (engineIdPattern.test(text)) return text;
  throw new InvalidArgumentError("write 12 hex digits, as in status.ramet.engine of a Sandbox or a Checkpoint");
}

/** Collects images of earlier engines, such as `3fb1c0a9d2e4=registry.example/ramet-cell:1`. */
export function collectEarlierImage(text: string, before: readonly [string, string][] = []): [string, string][] {
  const at = text.indexOf("=");
  const [engine, image] = [text.slice(0, at), text.slice(at + 1)];
  if (!engineIdPattern.test(engine) || image === "") {
    throw new InvalidArgumentError("write it as 3fb1c0a9d2e4=registry.example/ramet-cell:1");
  }
  return [...before, [engine, image]];
}

/** Collects IPv4 ranges, such as `10.0.0.0/8`. */
export function collectRange(text: string, before: readonly string[] = []): string[] {
  const [, address = "", bits] = /^([\d.]+)\/(\d{1,2})$/.exec(text) ?? [];
  if (!isIPv4(address) || Number(bits) > 32) throw new InvalidArgumentError("write it as 10.0.0.0/8");
  return [...before, text];
}

/** Collects IPv4 and IPv6 networks, such as `10.0.0.0/8` and `2001:db8::/32`. */
export function collectNetwork(text: string, before: readonly string[] = []): string[] {
  const [, address = "", bits] = /^([^/]+)\/(\d{1,3})$/.exec(text) ?? [];
  if (isIP(address) === 0 || Number(bits) > (isIPv4(address) ? 32 : 128)) {
    throw new InvalidArgumentError("write it as 10.0.0.0/8 or 2001:db8::/32");
  }
  return [...before, text];
}

/** Adds the flags for what confines every cell on its node. */
export function withCellFlags(command: Command): Command {
  return command
    .option(
      "--cell-seccomp-profile <path>",
      "the cells' seccomp profile, a path in the kubelet's directory of profiles (default: Unconfined)",
    )
    .addOption(
      new Option(
        "--cell-user-namespaces <when>",
        "run cells in user namespaces; auto: if all schedulable nodes support it (default: auto)",
      ).choices(cellUserNamespaces),
    );
}

/** Adds the flag for the namespaces in which a server works. */
export function withServedNamespaceFlag(command: Command): Command {
  return command.option(
    "--served-namespace <name...>",
    "the only namespaces whose sandboxes run; the servers need no rights in others (default: all)",
  );
}

export interface EgressFlags {
  egressDefault?: "allow" | "deny";
  egressAllow?: string[];
  egressDeny?: string[];
}

/** Adds the flags for the egress rules of all sandboxes. */
export function withEgressFlags(command: Command): Command {
  return command
    .addOption(
      new Option("--egress-default <action>", "connections of sandboxes without a rule (default: allow)").choices([
        "allow",
        "deny",
      ]),
    )
    .option(
      "--egress-allow <rule...>",
      "what sandboxes can connect to: addresses, ranges, names, *.names, each with an optional :port",
    )
    .option("--egress-deny <rule...>", "what sandboxes cannot connect to; precedes --egress-allow");
}

export const egressFlagNames = { default: "--egress-default", allow: "--egress-allow", deny: "--egress-deny" };

/** The rules of the flags, not validated. */
export function egressOf({ egressDefault, egressAllow, egressDeny }: EgressFlags) {
  return { default: egressDefault, allow: egressAllow, deny: egressDeny };
}

export type QuotaFlags = Partial<Record<`namespace${Capitalize<QuotaName>}`, string>>;

export const quotaFlagNames = {
  storeBytes: "--namespace-store-bytes",
  checkpoints: "--namespace-checkpoints",
  builds: "--namespace-builds",
  fetches: "--namespace-fetches",
} as const satisfies Record<QuotaName, string>;

/** Adds the flags for the limits of each namespace. */
export function withQuotaFlags(command: Command): Command {
  const { checkpoints, builds, fetches } = defaultQuota;
  return command
    .option(
      `${quotaFlagNames.storeBytes} <quantity>`,
      "the limit for a namespace's checkpoints in the store, like 100Gi (default: unlimited)",
    )
    .option(
      `${quotaFlagNames.checkpoints} <number>`,
      `the limit for the checkpoints of a namespace, or unlimited (default: ${checkpoints})`,
    )
    .option(
      `${quotaFlagNames.builds} <number>`,
      `how many named snapshots of a namespace build concurrently, or unlimited (default: ${builds})`,
    )
    .option(
      `${quotaFlagNames.fetches} <number>`,
      `how many files the recipes of a namespace fetch concurrently, or unlimited (default: ${fetches})`,
    );
}

export interface RegistryFlags {
  privateRegistry?: string[];
  insecureRegistry?: string[];
  /** False: `--no-image-lookup`. */
  imageLookup?: boolean;
  /** As given. */
  pullTimeout?: string;
}

/** Adds the flags for registries of images. */
export function withRegistryFlags(command: Command): Command {
  return command
    .option(
      "--private-registry <host...>",
      "registries, as host or host:port, that may have private addresses (default: none)",
      collectRegistry,
    )
    .option(
      "--insecure-registry <host...>",
      "registries that may have private addresses and are read by HTTP without TLS (default: none)",
      collectRegistry,
    )
    .option("--no-image-lookup", "do not read from registries how images are started")
    .addOption(
      new Option(
        "--pull-timeout <duration>",
        "how long sets and builds wait for an image that cannot be pulled (default: 3m)",
      ).argParser(secondOrMore("--pull-timeout")),
    );
}

/** A parser for a duration of at least a second, which it returns as given. */
export function secondOrMore(flag: string): (text: string) => string {
  return (text) => {
    if (parsed(() => parseDuration(text, flag)) < 1_000) throw new InvalidArgumentError("it must be at least 1s");
    return text;
  };
}

function collectRegistry(text: string, before: readonly string[] = []): string[] {
  if (!isRegistryHost(text)) throw new InvalidArgumentError("write it as registry.example or registry.example:5000");
  return [...before, text];
}

/** The names of the flags in errors. */
export const registryFlagNames = {
  private: "--private-registry",
  insecure: "--insecure-registry",
  pullTimeout: "--pull-timeout",
} as const;

/** The settings of the flags, not validated. */
export function registriesOf(flags: RegistryFlags): RegistrySettings {
  const { privateRegistry, insecureRegistry, imageLookup, pullTimeout: timeout } = flags;
  return {
    ...(privateRegistry && { private: privateRegistry }),
    ...(insecureRegistry && { insecure: insecureRegistry }),
    ...(imageLookup === false && { lookup: false }),
    ...(timeout !== undefined && { pullTimeout: timeout }),
  };
}

/** The limits of the flags, not validated. */
export function quotaFlagsOf(flags: QuotaFlags): Partial<Record<QuotaName, string>> {
  const given = {
    storeBytes: flags.namespaceStoreBytes,
    checkpoints: flags.namespaceCheckpoints,
    builds: flags.namespaceBuilds,
    fetches: flags.namespaceFetches,
  };
  return Object.fromEntries(Object.entries(given).filter(([, value]) => value !== undefined));
}
