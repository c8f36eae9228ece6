import { join } from "node:path";
import { RametError } from "../../base/errors.ts";
import { parseInstallOptions, type InstallOptions } from "../../install/install-options.ts";
import { allManifests, storeIsNotMounted } from "../../install/manifests.ts";
import { privateRanges } from "../../install/private-ranges.ts";
import { accessFields } from "../../install/remote-store.ts";
import { exitCodes } from "../exit-codes.ts";
import { printLine, writeAll, type Io } from "../io.ts";
import { manifestFiles, renderManifests } from "./render-manifests.ts";
import { writeFiles } from "./write-files.ts";

export interface ManifestsOptions {
  image: string;
  cellImage: string;
  namespace: string;
  replicas: number;
  gatewayReplicas: number;
  /** `false`: none. @default private ranges */
  clusterRange?: readonly string[] | false;
  /** An address, in place of folder and claim. */
  store?: string;
  storeRoleArn?: string;
  storeServiceAccount?: string;
  storeClientId?: string;
  storeTenantId?: string;
  storeSecret?: string;
  storeDirectory: string;
  storeClaim: string;
  out?: string;
}

/** `ramet manifests`: what installs controllers and gateways, to stdout or into a folder. Asks no cluster. */
export async function printManifests(io: Io, options: ManifestsOptions): Promise<number> {
  const { out } = options;
  const { clusterRange = privateRanges } = options;
  const clusterRanges = clusterRange === false ? [] : clusterRange;
  const wanted = parseInstallOptions({ ...options, clusterRanges, store: storeOf(options) }, flagNames);
  const manifests = allManifests(wanted);
  if (out === undefined) await writeAll(io.stdout, `${mark}.\n${renderManifests(manifests)}`);
  else {
    const files = manifestFiles(manifests).map(({ name, text }) => ({ name, text: `${mark}. ${advice}\n${text}` }));
    await writeFiles(out, files, mark);
    printLine(io.stdout, join(out, "kustomization.yaml"));
  }
  for (const line of toKnow(wanted)) printLine(io.stderr, line);
  return exitCodes.ok;
}

function storeOf(options: ManifestsOptions): InstallOptions["store"] {
  const { store: address, storeDirectory: directory, storeClaim: claim } = options;
  const access = {
    roleArn: options.storeRoleArn,
    serviceAccount: options.storeServiceAccount,
    clientId: options.storeClientId,
    tenantId: options.storeTenantId,
    secret: options.storeSecret,
  };
  if (address !== undefined) return { address, ...access };
  if (accessFields.every((field) => access[field] === undefined)) return { directory, claim };
  const flags = accessFields.map((field) => flagNames[`store.${field}`]);
  throw new RametError("InvalidArgument", `${flags.join(" and ")} are for a store that --store names`);
}

function toKnow({ store, namespace }: InstallOptions): string[] {
  if ("claim" in store) {
    return [
      `The PersistentVolumeClaim ${store.claim} in the namespace ${namespace} is yours to make.`,
      `${storeIsNotMounted}.`,
    ];
  }
  return store.secret === undefined
    ? []
    : [`The Secret ${store.secret} in the namespace ${namespace} is yours to make.`];
}

const mark = "# Made by ramet manifests";
const advice = "It is written anew with each version: change it by patches of a kustomization that names this folder.";

const flagNames = {
  namespace: "--namespace",
  image: "--image",
  cellImage: "--cell-image",
  replicas: "--replicas",
  gatewayReplicas: "--gateway-replicas",
  clusterRanges: "--cluster-range",
  "store.directory": "--store-directory",
  "store.claim": "--store-claim",
  "store.address": "--store",
  "store.roleArn": "--store-role-arn",
  "store.serviceAccount": "--store-service-account",
  "store.clientId": "--store-client-id",
  "store.tenantId": "--store-tenant-id",
  "store.secret": "--store-secret",
};
