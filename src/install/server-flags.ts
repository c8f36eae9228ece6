import { quotaNames } from "../api/quota/namespace-quota.ts";
import type { InstallOptions } from "./install-options.ts";

/** Flags that more than one installation or server has. */

type Options = InstallOptions<unknown, unknown>;

export function clusterRangeFlags(ranges: Options["clusterRanges"]): unknown[] {
  return ranges.flatMap((range) => ["--cluster-range", range]);
}

export function selectorFlags(selector: Options["namespaceSelector"]): unknown[] {
  return selector === undefined ? [] : ["--namespace-selector", selector.text];
}

export function servedFlags(namespaces: Options["servedNamespaces"] = []): string[] {
  return namespaces.flatMap((served) => ["--served-namespace", served]);
}

export function quotaFlags(quota: Options["namespaceQuota"] = {}): unknown[] {
  const flags = {
    storeBytes: "--namespace-store-bytes",
    checkpoints: "--namespace-checkpoints",
    builds: "--namespace-builds",
    fetches: "--namespace-fetches",
  };
  return quotaNames.flatMap((name) => (quota[name] === undefined ? [] : [flags[name], quota[name]]));
}
