import type { CustomResource, CustomResourceOptions } from "@pulumi/pulumi";
import { RametError } from "../../src/base/errors.ts";
import { installedMap } from "../../provider/handlers/snapshot-stack/observed-cluster.ts";
import type { Cloud } from "../../provider/handlers/snapshot-stack/detect-cloud.ts";
import type { CloudResources } from "../identity/store-identity.ts";
import type { RametStore } from "../ramet-store.ts";
import { runError } from "../run-error.ts";
import type { Manifest } from "../../src/install/manifest.ts";
import { aksResources, aksStore } from "./aks.ts";
import type { SnapshotStackArgs } from "./args.ts";
import { eksResources, type EksStackArgs, eksStore } from "./eks.ts";
import { checkIdentity } from "../identity/eks-store-identity.ts";
import { gkeResources, gkeStore } from "./gke.ts";

interface Clouds {
  resources: (name: string, request: CloudRequest, options: CustomResourceOptions) => Promise<CloudResources>;
  store: (args: SnapshotStackArgs, made: Promise<CloudResources>) => RametStore;
}

interface CloudRequest {
  args: SnapshotStackArgs;
  addons: readonly string[];
  before: readonly CustomResource[];
}

const clouds: Partial<Record<Cloud, Clouds>> = {
  eks: {
    resources: (name, { args, ...others }, options) => eksResources(name, { args: eksArgs(args), ...others }, options),
    store: ({ eks = {} }, made) => eksStore(eks, made),
  },
  gke: { resources: (name, { args }, options) => gkeResources(name, args, options), store: gkeStore },
  aks: { resources: (name, { args }, options) => aksResources(name, args, options), store: aksStore },
};

/** Declares the resources of the cloud. @throws RunError if an argument or the cloud's package is missing */
export async function cloudResources(
  name: string,
  request: CloudRequest,
  options: CustomResourceOptions,
): Promise<CloudResources> {
  return (await clouds[request.args.cloud]?.resources(name, request, options)) ?? {};
}

/** The store for the argument `store` of a `RametRuntime`. Empty if none is requested. */
export function cloudStore(args: SnapshotStackArgs, made: Promise<CloudResources>): RametStore {
  return clouds[args.cloud]?.store(args, made) ?? {};
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
