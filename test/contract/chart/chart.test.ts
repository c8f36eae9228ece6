import { spawnSync } from "node:child_process";
import { createHash } from "node:crypto";
import { mkdtemp, rm } from "node:fs/promises";
import { readFileSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, expect, it, onTestFinished } from "vitest";
import { parse, parseAllDocuments } from "yaml";
import packageJson from "../../../package.json" with { type: "json" };
import { runProgram } from "../../../src/cli/program.ts";
import { besideKeys } from "../../../src/install/beside-manifests.ts";
import type { Manifest } from "../../../src/install/manifest.ts";
import { flagName, keysOf, setAt, settingOf } from "../../../src/install/setting-values.ts";
import { RametError } from "../../../src/base/errors.ts";
import { KubeClient } from "../../../src/kube/kube-client.ts";
import { clusterRef, coreResources, namespacedRef } from "../../../src/kube/resource-ref.ts";
import { acquirePinned } from "../../../src/local/tools/acquire-tools.ts";
import { openControlPlane } from "../../setup/control-plane.ts";
import { memoryIo } from "../../setup/memory-io.ts";
import { pinnedTestTool } from "../../setup/pinned-tools.ts";

/** Renders the chart with Helm, and compares it with what `ramet manifests` prints for the same settings. */
const root = fileURLToPath(new URL("../../..", import.meta.url));
const { chart: program } = await acquirePinned(pinnedTestTool, { names: ["chart"] });
const images = { image: "registry.example/ramet:1", cellImage: "registry.example/ramet-cell:1" };

/** A valid value for each setting of the chart, by key; each differs from the default. */
const samples: Record<string, unknown> = {
  ...images,
  servedNamespaces: ["team-a", "team-b"],
  "egress.default": "deny",
  "egress.allow": ["*.example.org:443", "10.1.0.0/16"],
  "egress.deny": ["203.0.113.7"],
  "namespaceQuota.storeBytes": "100Gi",
  "namespaceQuota.checkpoints": "unlimited",
  "namespaceQuota.builds": "3",
  "namespaceQuota.fetches": "4",
  "cells.seccompProfile": "ramet/cell.json",
  "cells.userNamespaces": "never",
  "cells.writableLayerSize": "5Gi",
  "cells.nodeCachePath": "/var/lib/ramet/cache",
  "cells.nodeCacheSize": "30Gi",
  "cells.onDisruption": "Pause",
  "cells.concurrentMoves": 0,
  "cells.longestGracePeriod": "10m",
  "cells.checkpointEvery": "15m",
  "cells.earlierImages": ["3fb1c0a9d2e4=registry.example/ramet-cell:0"],
  "registries.private": ["registry.internal:5000"],
  "registries.insecure": ["10.0.0.9:5000"],
  "registries.lookup": false,
  "registries.pullTimeout": "90s",
  beside: "openkruise",
  replicas: 3,
  gatewayReplicas: 1,
  "clientApi.replicas": 4,
  "clientApi.domain": "sandboxes.example.org",
  "gateway.domain": "agents.example.org",
  "gateway.tlsIssuer": "letsencrypt",
  "gateway.tlsSecret": "tls",
  "gateway.service": "LoadBalancer",
  "gateway.ingress": "nginx",
  "gateway.gatewayApi": "infra/public/https",
  "gateway.url": "https://gateway.example.org",
  "gateway.ca": "-----BEGIN CERTIFICATE-----\nYWJj\n-----END CERTIFICATE-----\n",
  "gateway.exec": false,
  metricsNamespace: "monitoring",
  metricsFromAllNamespaces: true,
  monitoring: true,
  "gateway.trustedProxies": ["10.0.0.0/16", "2001:db8::/32"],
  "gateway.maxConnections": 12_000_000,
  "gateway.maxConnectionsPerClient": 50,
  "gateway.maxConnectionsPerNamespace": 60,
  "gateway.maxConnectionsPerSandbox": 70,
  "gateway.acceptTokensByReviewOnly": true,
  clusterRanges: ["10.1.0.0/16", "10.2.0.0/16"],
  clusterDomain: "cluster.example",
  namespaceSelector: "team in (a, b),tier notin (test),env=prod, size!=small, owner ,!legacy,example.org/x==1",
  "encryption.secret": "keys",
  importVolumes: true,
  "store.address": "s3://checkpoints/ramet?region=eu-central-1",
  "store.roleArn": "arn:aws:iam::123456789012:role/ramet",
  "store.serviceAccount": "ramet@project.iam.gserviceaccount.com",
  "store.clientId": "11111111-2222-3333-4444-555555555555",
  "store.tenantId": "66666666-7777-8888-9999-000000000000",
  "store.secret": "store",
  "store.directory": "/mnt/store",
  "store.claim": "claim",
};

const keys = keysOf("manifests").filter((key) => !["namespace", "noClusterRanges", "out"].includes(key));

/** Settings that the command line does not accept together. */
const excluded: readonly [string, string][] = [
  ["metricsNamespace", "metricsFromAllNamespaces"],
  ["gateway.ingress", "gateway.gatewayApi"],
  ["store.address", "store.directory"],
  ["store.address", "store.claim"],
  ["store.roleArn", "store.serviceAccount"],
  ["store.roleArn", "store.clientId"],
  ["store.roleArn", "store.tenantId"],
  ["store.serviceAccount", "store.clientId"],
  ["store.serviceAccount", "store.tenantId"],
];
const needed: Record<string, string> = {
  "cells.nodeCacheSize": "cells.nodeCachePath",
  "gateway.tlsIssuer": "gateway.domain",
  "gateway.ingress": "gateway.domain",
  "gateway.gatewayApi": "gateway.domain",
  "store.roleArn": "store.address",
  "store.serviceAccount": "store.address",
  "store.clientId": "store.address",
  "store.tenantId": "store.address",
  "store.secret": "store.address",
};
const schemes: Record<string, string> = {
  "store.serviceAccount": "gs://checkpoints/ramet",
  "store.clientId": "azblob://checkpoints?account=agents",
  "store.tenantId": "azblob://checkpoints?account=agents",
};

interface Release {
  namespace: string;
  given: Record<string, unknown>;
}

let directory: string;
let chart: string;

beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), "ramet-chart-"));
  chart = join(directory, "ramet");
  run(process.execPath, ["--no-warnings", join(root, "scripts/generate-chart.mjs"), chart]);
});

afterAll(() => rm(directory, { recursive: true, force: true }));

const all = chosen(keys.filter((key) => key !== "beside"));

it("has a value for each setting, the version of the package, and nothing that Helm's linter finds", () => {
  expect(Object.keys(samples).sort()).toEqual([...keys].sort());
  const description = parse(readFileSync(join(chart, "Chart.yaml"), "utf8")) as object;
  expect(description).toMatchObject({ version: packageJson.version, appVersion: packageJson.version });
  const values = [images, all].map((given) => valuesOf(given));
  const { lint } = helm({ lint: values });
  // A chart should have an icon, according to the linter.
  expect(lint.filter((message) => !message.includes("icon is recommended"))).toEqual([]);
});

it("renders what `ramet manifests` prints, for all settings together and for many combinations", async () => {
  const mixed = Array.from({ length: 30 }, (_, at) => chosen(keys.filter((key) => isIn(`${at} ${key}`))));
  const beside = chosen(keys);
  const exposed = { ...chosen(["gateway.domain"]), "gateway.gatewayApi": "infra/public" };
  const issued = chosen(["gateway.domain", "gateway.tlsIssuer", "gateway.service"]);
  const releases = [images, beside, all, exposed, issued, ...mixed].map((given, at) => ({
    namespace: at % 2 === 0 ? "ramet-system" : "platform",
    given: { ...("beside" in given ? { image: images.image } : images), ...given },
  }));
  const { releases: rendered } = helm({ releases });
  for (const [at, release] of releases.entries()) {
    const { texts = {}, error } = rendered[at] ?? {};
    const what = JSON.stringify(release);
    expect(error, what).toBe("");
    expect(byName(documentsIn(texts, at < 2)), what).toEqual(byName(await printed(release, at < 2)));
  }
});

it("has only fields that an API server knows, with the defaults and with all settings", async () => {
  const plane = await openControlPlane("all");
  const client = new KubeClient(plane.connection);
  onTestFinished(async () => {
    await client.close();
    await plane.stop();
  });
  const namespace = "ramet-system";
  await client
    .resource(coreResources.namespaces)
    .create({ apiVersion: "v1", kind: "Namespace", metadata: { name: namespace } });
  const exposed = chosen(["gateway.domain", "gateway.tlsSecret", "gateway.ingress", "gateway.service"]);
  const { releases } = helm({
    releases: [images, { ...images, ...exposed }, all].map((given) => ({ namespace, given })),
  });
  const refused: string[] = [];
  const kinds = new Set<string>();
  for (const object of releases.flatMap(({ texts = {} }) => documentsIn(texts, true))) {
    const { apiVersion, kind, metadata } = object;
    // Other projects define these kinds, and Helm creates the release's namespace.
    if (!/^(v1|(apps|batch|policy)\/v1|[a-z.]+\.k8s\.io\/v1)$/.test(apiVersion) || apiVersion.startsWith("gateway."))
      continue;
    kinds.add(kind);
    const ref = (metadata.namespace === undefined ? clusterRef : namespacedRef)(apiVersion, kind);
    const isElsewhere = metadata.namespace !== undefined && metadata.namespace !== namespace;
    const at = { ...metadata, namespace: isElsewhere ? "default" : metadata.namespace };
    const body = { ...object, metadata: at };
    const query = { fieldManager: "helm", force: true, fieldValidation: "Strict", dryRun: "All" };
    const contentType = "application/apply-patch+yaml";
    await client
      .request({ verb: "patch", resource: ref, at, query, body, contentType, repeatable: true })
      .catch((error: unknown) => refused.push(`${kind} ${metadata.name}: ${RametError.from(error).message}`));
  }
  expect(refused).toEqual([]);
  for (const kind of [
    "CustomResourceDefinition",
    "Deployment",
    "ClusterRole",
    "Service",
    "ValidatingAdmissionPolicy",
    "Ingress",
  ])
    expect(kinds).toContain(kind);
});

it("refuses values that it does not know, of another type, and that need others", () => {
  const invalid: [object, string][] = [
    [{ ...images, replica: 3 }, "additional properties 'replica' not allowed"],
    [{ ...images, egress: { alow: [] } }, "additional properties 'alow' not allowed"],
    [{ ...images, replicas: "2" }, "got string, want integer"],
    [{ ...images, replicas: 0 }, "minimum: got 0, want 1"],
    [{ ...images, egress: { default: "maybe" } }, "value must be one of"],
    [{ ...images, metricsNamespace: "Not_A_Label" }, "does not match pattern"],
    [{ cellImage: images.cellImage }, "missing property 'image'"],
    [{ image: images.image }, "missing property 'cellImage'"],
    [{ ...images, servedNamespaces: [] }, "minItems: got 0, want 1"],
    [{ ...images, cells: { nodeCacheSize: "5Gi" } }, "properties 'nodeCachePath' required, if 'nodeCacheSize' exists"],
    [{ ...images, store: { secret: "keys" } }, "properties 'address' required, if 'secret' exists"],
    [{ ...images, store: { address: "gs://a", roleArn: samples["store.roleArn"] } }, "does not match pattern '^s3://'"],
    [{ ...images, gateway: { ingress: "nginx" } }, "properties 'domain' required, if 'ingress' exists"],
    [{ ...images, gateway: { domain: "a.b", ingress: "c", gatewayApi: "d/e" } }, "'/gateway': 'not' failed"],
    [{ ...images, metricsNamespace: "a", metricsFromAllNamespaces: true }, "'not' failed"],
    [{ image: images.image, beside: "openkruise", egress: { default: "deny" } }, "'/egress/default': false schema"],
    [{ image: images.image, beside: "openkruise", gatewayReplicas: 1 }, "'/gatewayReplicas': value must be 2"],
    [{ ...images, namespaceSelector: "team in a" }, "namespaceSelector is not a label selector: team in a"],
  ];
  const { releases } = helm({ releases: invalid.map(([values]) => ({ namespace: "ramet-system", values })) });
  expect(releases.map(({ error }, at) => error.includes(invalid[at]?.[1] ?? "") || error)).toEqual(
    invalid.map(() => true),
  );
});

/** The samples of these settings, without those that cannot be combined, and with those that they need. */
function chosen(wanted: readonly string[]): Record<string, unknown> {
  const names = new Set(wanted);
  for (const [name, other] of Object.entries(needed)) if (names.has(name)) names.add(other);
  for (const [name, other] of excluded) if (names.has(name)) names.delete(other);
  const used = names.has("beside") ? besideKeys() : keys;
  const given = Object.fromEntries(used.filter((key) => names.has(key)).map((key) => [key, samples[key]]));
  const scheme = Object.keys(schemes).find((name) => names.has(name));
  return scheme === undefined || names.has("beside") ? given : { ...given, "store.address": schemes[scheme] };
}

/** Half of the names, always the same. */
function isIn(name: string): boolean {
  return (createHash("sha256").update(name).digest()[0] ?? 0) < 128;
}

function valuesOf(given: Record<string, unknown>): object {
  const values = {};
  for (const [key, value] of Object.entries(given)) setAt(values, key, value);
  return values;
}

/** What `ramet manifests` prints, without the namespace that Helm creates. The CRDs are large, and the same for all. */
async function printed({ namespace, given }: Release, withCrds: boolean): Promise<Manifest[]> {
  const io = memoryIo();
  const flags = Object.entries(given).flatMap(([key, value]) => flagsOf(key as (typeof keys)[number], value));
  expect(await runProgram(io, ["manifests", "--namespace", namespace, ...flags]), io.written("stderr")).toBe(0);
  const texts = io.written("stdout").split("\n---\n");
  const all = texts.filter((text) => withCrds || !isOfCrd(text)).map((text) => parse(text) as Manifest);
  return all.filter(({ kind, metadata: { name } }) => kind !== "Namespace" || name !== namespace);
}

function flagsOf(key: (typeof keys)[number], value: unknown): string[] {
  const flag = flagName(key, "manifests");
  if (Array.isArray(value)) return [flag, ...value.map(String)];
  if (typeof value === "boolean") return value === (settingOf(key, "manifests").kind === "on") ? [flag] : [];
  return [flag, key === "gateway.ca" ? fileWith(String(value)) : String(value)];
}

function fileWith(text: string): string {
  const path = join(directory, "ca.pem");
  writeFileSync(path, text);
  return path;
}

function isOfCrd(text: string): boolean {
  return /^kind: CustomResourceDefinition$/m.test(text);
}

function documentsIn(texts: Record<string, string>, withCrds: boolean): Manifest[] {
  return Object.entries(texts).flatMap(([name, text]) => {
    if (name.endsWith("NOTES.txt") || text.trim() === "" || (!withCrds && isOfCrd(text))) return [];
    const documents = parseAllDocuments(text, { version: "1.1" });
    return documents.map((document) => document.toJS() as Manifest | null).filter((one) => one !== null);
  });
}

function byName(objects: readonly Manifest[]): Record<string, Manifest> {
  return Object.fromEntries(
    objects.map((one) => [`${one.kind} ${one.metadata.namespace ?? ""}/${one.metadata.name}`, one]),
  );
}

interface Reports {
  releases: { texts: Record<string, string>; error: string }[];
  lint: string[];
}

function helm({ releases = [], lint = [] }: { releases?: object[]; lint?: object[] }): Reports {
  const input = {
    chart,
    releases: releases.map((one) => ("given" in one ? { ...one, values: valuesOf((one as Release).given) } : one)),
    lint,
  };
  return JSON.parse(run(program, [], JSON.stringify(input))) as Reports;
}

function run(program: string, args: string[], input?: string): string {
  const { status, stdout, stderr } = spawnSync(program, args, { input, encoding: "utf8", maxBuffer: 1024 ** 3 });
  expect(status, stderr).toBe(0);
  return stdout;
}
