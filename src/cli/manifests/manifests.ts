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
import { readText } from "../../base/read-text.ts";
import { besideLastingManifests, besideServerManifests, parseBesideOptions } from "../../install/beside-manifests.ts";
import { controllerRights, rightsBeside } from "../../install/controller-rights.ts";
import { sweeperName, sweeperRights } from "../../install/controller-manifests.ts";
import { clientApiRights, clientRights, gatewayRights } from "../../install/http-server-rights.ts";
import { type InstallOptions, accessFields, parseInstallOptions } from "../../install/install-options.ts";
import { type Manifest, privateRanges } from "../../install/manifest.ts";
import { allManifests, storeIsNotMounted } from "../../install/manifests.ts";
import type { Rights } from "../../install/rights.ts";
import { type Settings, flagName } from "../../install/setting-values.ts";
import { type Io, printLine, writeAll } from "../io.ts";

/** `ramet manifests`: writes the manifests of controllers and gateways to stdout or into a directory. Uses no cluster. */
export async function printManifests(io: Io, settings: Settings<"manifests">): Promise<void> {
  const { out, beside, clientApi } = settings;
  const common = { ...settings, clusterRanges: settings.clusterRanges ?? privateRanges };
  if (beside !== undefined) {
    const parsed = parseBesideOptions({ ...common, beside });
    const all = [...besideLastingManifests(parsed), ...besideServerManifests(parsed)];
    await write(io, all, { out, rights: { ...commonRights, [controllerName]: rightsBeside } });
    return;
  }
  const { ca } = settings.gateway;
  const options = parseInstallOptions({
    ...common,
    cellImage: settings.cellImage ?? missingCellImage(),
    gateway: { ...settings.gateway, ca: ca && (await readText(ca)) },
    clientApi: clientApi.replicas > 0 ? clientApi : undefined,
    store: storeOf(settings),
  });
  const { servedNamespaces, gateway } = options;
  const rights = {
    ...commonRights,
    [controllerName]: controllerRights(servedNamespaces, options),
    [gatewayName]: gatewayRights(gateway?.exec ?? true, servedNamespaces),
    [clientApiName]: clientApiRights(servedNamespaces),
  };
  await write(io, allManifests(options), { out, rights });
  for (const line of toKnow(options)) printLine(io.stderr, line);
}

function missingCellImage(): never {
  throw new RametError("InvalidArgument", "Cannot print the manifests: they need a cell image", {
    hint: "Add --cell-image, or --beside where other controllers run the sandboxes",
  });
}

type RightsByName = Partial<Record<string, Rights>>;

const commonRights: RightsByName = {
  [clientRoleName]: { everywhere: clientRights, inSystem: [] },
  [sweeperName]: { everywhere: sweeperRights, inSystem: [] },
};

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

function storeOf({ store: { address, directory, claim, ...access } }: Settings<"manifests">): InstallOptions["store"] {
  if (address !== undefined) return { address, ...access };
  if (Object.keys(access).length === 0) return { directory: directory ?? "", claim };
  const flags = accessFields.map((field) => flagName(`store.${field}`, "manifests"));
  throw new RametError("InvalidArgument", `${flags.join(" and ")} can only be used with --store`);
}

function toKnow(options: InstallOptions): string[] {
  const { encryption, gateway, namespace } = options;
  const secret = encryption?.secret ?? "none";
  return [
    ...ofStore(options),
    ...(secret === "none" ? [] : [`The Secret ${secret} in the namespace ${systemNamespace} must be created by you.`]),
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
