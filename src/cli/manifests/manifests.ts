import { mkdir, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { Document, isNode } from "yaml";
import {
  clientApiName,
  clientRoleName,
  controllerName,
  gatewayName,
  systemNamespace,
} from "../../api/names/system-names.ts";
import { RametError, whyUnreadable } from "../../base/errors.ts";
import { besideLastingManifests, besideServerManifests, parseBesideOptions } from "../../install/beside-manifests.ts";
import { rightsBeside } from "../../install/beside-rights.ts";
import { clientApiRights } from "../../install/client-api-rights.ts";
import { clientRights } from "../../install/client-role.ts";
import { controllerRights } from "../../install/controller-rights.ts";
import { gatewayRights } from "../../install/gateway-rights.ts";
import { type GatewaySettings, type InstallOptions, parseInstallOptions } from "../../install/install-options.ts";
import { type Manifest, privateRanges } from "../../install/manifest.ts";
import { allManifests, storeIsNotMounted } from "../../install/manifests.ts";
import { accessFields } from "../../install/remote-store.ts";
import type { Rights } from "../../install/rights.ts";
import { exitCodes } from "../exit-codes.ts";
import {
  egressFlagNames,
  type EgressFlags,
  egressOf,
  quotaFlagNames,
  type QuotaFlags,
  quotaFlagsOf,
  type RegistryFlags,
  registriesOf,
  registryFlagNames,
} from "../server-options.ts";
import { type Io, printLine, writeAll } from "../io.ts";

export interface ManifestsOptions extends EgressFlags, QuotaFlags, RegistryFlags {
  image: string;
  /** Required without `beside`. */
  cellImage?: string;
  earlierCellImage?: [engine: string, image: string][];
  /** The project beside whose controllers Ramet works. @default none */
  beside?: string;
  cellSeccompProfile?: string;
  cellUserNamespaces?: string;
  namespace: string;
  replicas: number;
  gatewayReplicas: number;
  clientApiReplicas: number;
  clientApiDomain?: string;
  /** `false` denies no ranges. @default private ranges */
  clusterRange?: readonly string[] | false;
  clusterDomain?: string;
  namespaceSelector?: string;
  encryptionSecret?: string;
  importVolumes?: boolean;
  /** An address, instead of directory and claim. */
  store?: string;
  storeRoleArn?: string;
  storeServiceAccount?: string;
  storeClientId?: string;
  storeTenantId?: string;
  storeSecret?: string;
  storeDirectory: string;
  storeClaim: string;
  metricsNamespace?: string;
  metricsFromAllNamespaces?: boolean;
  servedNamespace?: string[];
  gatewayTrustedProxy?: string[];
  gatewayMaxConnections?: number;
  gatewayMaxConnectionsPerClient?: number;
  gatewayMaxConnectionsPerNamespace?: number;
  gatewayMaxConnectionsPerSandbox?: number;
  gatewayAcceptTokensByReviewOnly?: boolean;
  /** @default true */
  gatewayExec?: boolean;
  gatewayTlsSecret?: string;
  gatewayUrl?: string;
  gatewayCaFile?: string;
  out?: string;
}

/** `ramet manifests`: writes the manifests of controllers and gateways to stdout or into a directory. Uses no cluster. */
export async function printManifests(io: Io, options: ManifestsOptions): Promise<number> {
  const { out } = options;
  const { clusterRange = privateRanges } = options;
  const clusterRanges = clusterRange === false ? [] : clusterRange;
  const { namespaceSelector: text, beside, ...others } = options;
  const common = {
    ...others,
    ...(text !== undefined && { namespaceSelector: { text, requirements: [] } }),
    clusterRanges,
    namespaceQuota: quotaFlagsOf(options),
  };
  if (beside !== undefined) {
    const parsed = parseBesideOptions({ ...common, beside }, flagNames);
    const all = [...besideLastingManifests(parsed), ...besideServerManifests(parsed)];
    await write(io, all, { out, rights: { ...commonRights, [controllerName]: rightsBeside } });
    return exitCodes.ok;
  }
  const given = {
    ...common,
    ...(options.servedNamespace && { servedNamespaces: options.servedNamespace }),
    cellImage: options.cellImage ?? missingCellImage(),
    egress: egressOf(options),
    gateway: await gatewayOf(options),
    ...clientApiOf(options),
    cells: {
      seccompProfile: options.cellSeccompProfile,
      userNamespaces: options.cellUserNamespaces,
      earlierImages: options.earlierCellImage?.map(([engine, image]) => `${engine}=${image}`),
    },
    registries: registriesOf(options),
    ...(options.encryptionSecret !== undefined && { encryption: { secret: options.encryptionSecret } }),
    store: storeOf(options),
  };
  const wanted = parseInstallOptions(given, flagNames);
  const { servedNamespaces, gateway } = wanted;
  const rights = {
    ...commonRights,
    [controllerName]: controllerRights(servedNamespaces, wanted),
    [gatewayName]: gatewayRights(gateway?.exec ?? true, servedNamespaces),
    [clientApiName]: clientApiRights(servedNamespaces),
  };
  await write(io, allManifests(wanted), { out, rights });
  for (const line of toKnow(wanted)) printLine(io.stderr, line);
  return exitCodes.ok;
}

function missingCellImage(): never {
  throw new RametError("InvalidArgument", "Cannot print the manifests: they need a cell image", {
    hint: "Add --cell-image, or --beside where other controllers run the sandboxes",
  });
}

/** The rights of each server and of users, by the name of their roles. */
type RightsByName = Partial<Record<string, Rights>>;

const commonRights: RightsByName = { [clientRoleName]: { everywhere: clientRights, inSystem: [] } };

async function write(
  io: Io,
  manifests: readonly Manifest[],
  { out, rights }: { out: string | undefined; rights: RightsByName },
): Promise<void> {
  if (out === undefined) await writeAll(io.stdout, `${mark}.\n${renderManifests(manifests, rights)}`);
  else {
    const files = manifestFiles(manifests, rights).map(({ name, text }) => ({
      name,
      text: `${mark}. ${advice}\n${text}`,
    }));
    await writeFiles(out, files, mark);
    printLine(io.stdout, join(out, "kustomization.yaml"));
  }
}

function clientApiOf({ clientApiReplicas: replicas, clientApiDomain: domain }: ManifestsOptions) {
  return replicas > 0 ? { clientApi: { replicas, domain } } : {};
}

async function gatewayOf(options: ManifestsOptions): Promise<GatewaySettings> {
  const { gatewayCaFile: path } = options;
  return {
    exec: options.gatewayExec,
    tlsSecret: options.gatewayTlsSecret,
    url: options.gatewayUrl,
    ca: path === undefined ? undefined : await textOf(path),
    trustedProxies: options.gatewayTrustedProxy,
    maxConnections: options.gatewayMaxConnections,
    maxConnectionsPerClient: options.gatewayMaxConnectionsPerClient,
    maxConnectionsPerNamespace: options.gatewayMaxConnectionsPerNamespace,
    maxConnectionsPerSandbox: options.gatewayMaxConnectionsPerSandbox,
    acceptTokensByReviewOnly: options.gatewayAcceptTokensByReviewOnly,
  };
}

async function textOf(path: string): Promise<string> {
  return readFile(path, "utf8").catch((cause: unknown) => {
    throw new RametError("NotFound", `Cannot read ${path}: ${whyUnreadable(cause)}`, { cause });
  });
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
  throw new RametError("InvalidArgument", `${flags.join(" and ")} can only be used with --store`);
}

function toKnow(options: InstallOptions): string[] {
  const { encryption, gateway, namespace } = options;
  const isCreated = encryption === undefined || encryption.secret === "none";
  return [
    ...ofStore(options),
    ...(isCreated
      ? []
      : [`The Secret ${encryption.secret} in the namespace ${systemNamespace} must be created by you.`]),
    ...(gateway?.tlsSecret === undefined
      ? []
      : [`The Secret ${gateway.tlsSecret} in the namespace ${namespace} must be created by you.`]),
  ];
}

function ofStore({ store, namespace }: InstallOptions): string[] {
  if ("claim" in store) {
    return [
      `The PersistentVolumeClaim ${store.claim} in the namespace ${namespace} must be created by you.`,
      `${storeIsNotMounted}.`,
    ];
  }
  return store.secret === undefined
    ? []
    : [`The Secret ${store.secret} in the namespace ${namespace} must be created by you.`];
}

const mark = "# Made by ramet manifests";
const advice = "Each version rewrites it: change it with patches of a kustomization that refers to this directory.";

const flagNames = {
  namespace: "--namespace",
  image: "--image",
  cellImage: "--cell-image",
  "cells.seccompProfile": "--cell-seccomp-profile",
  "cells.userNamespaces": "--cell-user-namespaces",
  "cells.earlierImages": "--earlier-cell-image",
  "registries.private": registryFlagNames.private,
  "registries.insecure": registryFlagNames.insecure,
  "registries.pullTimeout": registryFlagNames.pullTimeout,
  replicas: "--replicas",
  gatewayReplicas: "--gateway-replicas",
  "clientApi.replicas": "--client-api-replicas",
  "clientApi.domain": "--client-api-domain",
  clusterRanges: "--cluster-range",
  clusterDomain: "--cluster-domain",
  namespaceSelector: "--namespace-selector",
  "egress.default": egressFlagNames.default,
  "egress.allow": egressFlagNames.allow,
  "egress.deny": egressFlagNames.deny,
  "gateway.tlsSecret": "--gateway-tls-secret",
  "gateway.url": "--gateway-url",
  "gateway.ca": "--gateway-ca-file",
  metricsNamespace: "--metrics-namespace",
  servedNamespaces: "--served-namespace",
  "gateway.trustedProxies": "--gateway-trusted-proxy",
  "gateway.maxConnections": "--gateway-max-connections",
  "gateway.maxConnectionsPerClient": "--gateway-max-connections-per-client",
  "gateway.maxConnectionsPerNamespace": "--gateway-max-connections-per-namespace",
  "gateway.maxConnectionsPerSandbox": "--gateway-max-connections-per-sandbox",
  "namespaceQuota.storeBytes": quotaFlagNames.storeBytes,
  "namespaceQuota.checkpoints": quotaFlagNames.checkpoints,
  "namespaceQuota.builds": quotaFlagNames.builds,
  "namespaceQuota.fetches": quotaFlagNames.fetches,
  "encryption.secret": "--encryption-secret",
  "store.directory": "--store-directory",
  "store.claim": "--store-claim",
  "store.address": "--store",
  "store.roleArn": "--store-role-arn",
  "store.serviceAccount": "--store-service-account",
  "store.clientId": "--store-client-id",
  "store.tenantId": "--store-tenant-id",
  "store.secret": "--store-secret",
};

/**
 * Writes generated files over those of an earlier run. Writes nothing if one of them was not generated.
 * @param mark the start of every generated file
 * @throws RametError `AlreadyExists`; `Unavailable` if the directory cannot be read or written
 */
async function writeFiles(directory: string, files: readonly ManifestFile[], mark: string): Promise<void> {
  for (const { name } of files) await refuseOthers(join(directory, name), mark);
  try {
    await mkdir(directory, { recursive: true });
    for (const { name, text } of files) await writeFile(join(directory, name), text);
  } catch (cause) {
    throw new RametError("Unavailable", `Cannot write to ${directory}: ${RametError.from(cause).message}`, { cause });
  }
}

async function refuseOthers(path: string, mark: string): Promise<void> {
  const there = await readFile(path, "utf8").catch((cause: unknown) => {
    if (cause instanceof Error && "code" in cause && cause.code === "ENOENT") return mark;
    throw new RametError("Unavailable", `Cannot read ${path}: ${whyUnreadable(cause)}`, { cause });
  });
  if (there.startsWith(mark)) return;
  throw new RametError("AlreadyExists", `Cannot write ${path}: it exists, and ramet manifests did not create it`, {
    hint: "Choose another directory, and add it to the resources of your own kustomization",
  });
}

/** A file that `kubectl apply -k` reads. */
interface ManifestFile {
  name: string;
  text: string;
}

/** Manifests as a stream of YAML documents. A comment above each rule of a role gives its reason. */
function renderManifests(manifests: readonly Manifest[], rights: RightsByName): string {
  return manifests.map((manifest) => renderManifest(manifest, rights)).join("---\n");
}

/** One file for each kind of object, and last the kustomization that lists them. */
function manifestFiles(manifests: readonly Manifest[], rights: RightsByName): ManifestFile[] {
  const byKind = Map.groupBy(manifests, ({ kind }) => `${kebab(kind)}.yaml`);
  const kustomization = {
    apiVersion: "kustomize.config.k8s.io/v1beta1",
    kind: "Kustomization",
    resources: [...byKind.keys()],
  };
  return [
    ...[...byKind].map(([name, ofKind]) => ({ name, text: renderManifests(ofKind, rights) })),
    { name: "kustomization.yaml", text: renderDocument(new Document(kustomization)) },
  ];
}

function renderManifest(manifest: Manifest, rights: RightsByName): string {
  const document = new Document(manifest, { aliasDuplicateObjects: false });
  reasonsOf(manifest, rights).forEach((why, at) => {
    const rule = document.getIn(["rules", at]);
    if (isNode(rule)) rule.commentBefore = ` ${why}`;
  });
  return renderDocument(document);
}

/** Valid as YAML 1.1, too, which kubectl reads: `yes` is quoted. Lines are not folded. */
function renderDocument(document: Document): string {
  document.setSchema("1.1");
  document.directives = undefined;
  return document.toString({ lineWidth: 0 });
}

function reasonsOf({ kind, metadata: { name, namespace } }: Manifest, rights: RightsByName): string[] {
  if (kind !== "ClusterRole" && kind !== "Role") return [];
  const { everywhere, inSystem, inServed } = rights[name] ?? { everywhere: [], inSystem: [] };
  const inNamespace = namespace === systemNamespace ? inSystem : (inServed?.rights ?? []);
  return (kind === "ClusterRole" ? everywhere : inNamespace).map(({ why }) => why);
}

function kebab(kind: string): string {
  return kind.replaceAll(/(?<=[a-z])(?=[A-Z])/g, "-").toLowerCase();
}
