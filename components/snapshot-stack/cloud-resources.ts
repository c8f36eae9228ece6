import type { CustomResource, CustomResourceOptions } from "@pulumi/pulumi";
import { RametError } from "../../src/base/errors.ts";
import { installedMap } from "../../provider/handlers/snapshot-stack/observed-cluster.ts";
import type { RametStore } from "../ramet-store.ts";
import { runError } from "../run-error.ts";
import type { Manifest } from "../../src/install/manifest.ts";
import { aksResources, aksStore } from "./aks.ts";
import type { SnapshotStackArgs } from "./args.ts";
import { eksResources, type EksStackArgs, eksStore } from "./eks.ts";
import { checkIdentity } from "../identity/eks-store-identity.ts";
import { gkeResources, gkeStore } from "./gke.ts";

/** Declares the resources of the cloud. @throws RunError if an argument or the cloud's package is missing */
export async function cloudResources(
  name: string,
  { args, addons, before }: { args: SnapshotStackArgs; addons: readonly string[]; before: readonly CustomResource[] },
  options: CustomResourceOptions,
): Promise<Record<string, CustomResource>> {
  switch (args.cloud) {
    case "eks":
      return eksResources(name, { args: eksArgs(args), addons, before }, options);
    case "gke":
      return gkeResources(name, args.gke ?? {}, options);
    case "aks":
      return aksResources(name, args.aks ?? {}, options);
    case "acs":
    case "generic":
    case "local":
      return {};
  }
}

/** The store for the argument `store` of a `RametRuntime`. Empty if none is requested. */
export function cloudStore(
  { cloud, eks, gke = {}, aks = {} }: SnapshotStackArgs,
  made: Promise<Record<string, CustomResource>>,
): RametStore {
  switch (cloud) {
    case "eks":
      return eks === undefined ? {} : eksStore(eks, made);
    case "gke":
      return gkeStore(gke, made);
    case "aks":
      return aksStore(aks, made);
    case "acs":
    case "generic":
    case "local":
      return {};
  }
}

/** A ConfigMap that records which add-ons this stack installed, because add-ons cannot be annotated. */
export function installedManifests(addons: readonly string[], annotations: Record<string, string>): Manifest[] {
  if (addons.length === 0) return [];
  const { namespace, name, key } = installedMap;
  const data = { [key]: addons.join("\n") };
  return [{ apiVersion: "v1", kind: "ConfigMap", metadata: { namespace, name, annotations }, data }];
}

function eksArgs({ eks }: SnapshotStackArgs): EksStackArgs {
  if (eks === undefined) {
    throw runError(new RametError("InvalidArgument", "eks.clusterName is missing: the name of the cluster"));
  }
  checkIdentity(eks, "eks.");
  return eks;
}
