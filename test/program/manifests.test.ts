import { afterAll, beforeAll, expect, it } from "vitest";
import { parseAllDocuments } from "yaml";
import * as z from "zod";
import { ownerAnnotation } from "../../src/api/names/labels.ts";
import { RametError } from "../../src/base/errors.ts";
import { labels } from "../../src/api/names/labels.ts";
import { memoryIo } from "../setup/memory-io.ts";
import { runProgram } from "../../src/cli/program.ts";
import type { Manifest } from "../../src/install/manifest.ts";
import { covers } from "../../src/kube/apply.ts";
import { KubeClient } from "../../src/kube/kube-client.ts";
import { coreResources, type ResourceRef } from "../../src/kube/resource-ref.ts";
import { startControlPlane, type TestControlPlane } from "../setup/control-plane.ts";
import { openProgram, type ProgramWorld } from "./program-world.ts";

/** Compares `ramet manifests` with the component that installs the same objects. The tests depend on their order. */
const images = ["--image", "registry.example/ramet:1", "--cell-image", "registry.example/ramet-cell:1"];
const directory = '{ directory: "/var/lib/ramet", claim: "checkpoints" }';
let plane: TestControlPlane;
let world: ProgramWorld;
let client: KubeClient;
let manifests: Manifest[];

beforeAll(async () => {
  plane = await startControlPlane({ apis: "all" });
  client = new KubeClient(plane.connection);
  world = await openProgram("test/program/programs/install", { kubeconfig: plane.kubeconfigPath });
  const io = memoryIo();
  expect(await runProgram(io, ["manifests", ...images, "--store-claim", "checkpoints"])).toBe(0);
  manifests = parseAllDocuments(io.written("stdout")).map((document) => document.toJS() as Manifest);
});

afterAll(async () => {
  await client.close();
  await world.remove();
  await plane.stop();
});

it("rejects an invalid argument, as the command line does", async () => {
  await world.edit("/var/lib/ramet", "var/lib/ramet");
  const preview = await world.engine.preview();
  expect(preview.succeeded).toBe(false);
  expect(preview.text).toContain(
    'store.directory is not an absolute path of a directory: "var/lib/ramet" [InvalidArgument]',
  );
  await world.edit("var/lib/ramet", "/var/lib/ramet");
});

it("prints the objects that RametRuntime declares on an empty cluster", async () => {
  expect(await declared()).toEqual(byName(manifests));
});

it("prints the objects that RametRuntime declares with a store in S3, without a warning about a mount", async () => {
  const roleArn = "arn:aws:iam::123456789012:role/ramet";
  const s3 = `{ s3: { bucket: "checkpoints", prefix: "ramet", region: "eu-central-1", roleArn: "${roleArn}" } }`;
  await world.edit(directory, s3);
  const io = memoryIo();
  const store = ["--store", "s3://checkpoints/ramet?region=eu-central-1", "--store-role-arn", roleArn];
  expect(await runProgram(io, ["manifests", ...images, ...store])).toBe(0);
  const printed = parseAllDocuments(io.written("stdout")).map((document) => document.toJS() as Manifest);
  expect(await declared()).toEqual(byName(printed));
  expect((await world.engine.preview()).text).not.toContain("mount");

  await world.edit('bucket: "checkpoints"', 'bucket: "Checkpoints"');
  const invalid = await world.engine.preview();
  expect(invalid.text).toContain("the store in S3: bucket must be the name of a bucket [InvalidArgument]");
  await world.edit('{ s3: { bucket: "Checkpoints"', '{ directory: "/var/lib/ramet", s3: { bucket: "checkpoints"');
  expect((await world.engine.preview()).text).toContain("The argument store sets more than one kind of store");
  await world.edit(s3.replace("{ s3", '{ directory: "/var/lib/ramet", s3'), directory);
});

it("prints the objects that RametRuntime declares with a store in Google Cloud Storage", async () => {
  const email = "ramet@project.iam.gserviceaccount.com";
  const gcs = `{ gcs: { bucket: "checkpoints", prefix: "ramet", serviceAccount: "${email}" } }`;
  await world.edit(directory, gcs);
  const io = memoryIo();
  const store = ["--store", "gs://checkpoints/ramet", "--store-service-account", email];
  expect(await runProgram(io, ["manifests", ...images, ...store])).toBe(0);
  const printed = parseAllDocuments(io.written("stdout")).map((document) => document.toJS() as Manifest);
  expect(await declared()).toEqual(byName(printed));
  await world.edit(gcs, directory);
});

it("prints the objects that RametRuntime declares with settings of the gateways, and refuses an invalid one", async () => {
  const gateway = `gateway: {
    trustedProxies: ["10.0.0.0/16", "2001:db8::/32"],
    maxConnections: 5000,
    maxConnectionsPerClient: 50,
    acceptTokensByReviewOnly: true,
  },`;
  await world.edit(
    "store: {",
    `metricsNamespace: "monitoring", namespaceSelector: "team in (a,b)", ${gateway} store: {`,
  );
  const io = memoryIo();
  const networks = ["--gateway-trusted-proxy", "10.0.0.0/16", "2001:db8::/32"];
  const limits = ["--gateway-max-connections", "5000", "--gateway-max-connections-per-client", "50"];
  const served = ["--namespace-selector", "team in (a,b)"];
  const flags = [
    "--metrics-namespace",
    "monitoring",
    ...served,
    ...networks,
    ...limits,
    "--gateway-accept-tokens-by-review-only",
  ];
  expect(await runProgram(io, ["manifests", ...images, "--store-claim", "checkpoints", ...flags])).toBe(0);
  const printed = parseAllDocuments(io.written("stdout")).map((document) => document.toJS() as Manifest);
  expect(await declared()).toEqual(byName(printed));

  await world.edit('"10.0.0.0/16"', '"10.0.0.0"');
  expect((await world.engine.preview()).text).toContain(
    'gateway.trustedProxies is not a network, such as 10.0.0.0/16: "10.0.0.0" [InvalidArgument]',
  );
  await world.edit('"10.0.0.0", "2001:db8::/32"', "");
  await world.edit("maxConnections: 5000", "maxConnections: 0");
  expect((await world.engine.preview()).text).toContain("gateway.maxConnections must be at least 1 [InvalidArgument]");
  await world.edit(gateway.replace('"10.0.0.0/16", "2001:db8::/32"', "").replace("5000", "0"), "");
  await world.edit('metricsNamespace: "monitoring", namespaceSelector: "team in (a,b)",', "");
});

it("declares and prints the same when all namespaces can read metrics, and refuses to name one of them too", async () => {
  await world.edit("store: {", `metricsFromAllNamespaces: true, store: {`);
  const io = memoryIo();
  const flags = [...images, "--store-claim", "checkpoints", "--metrics-from-all-namespaces"];
  expect(await runProgram(io, ["manifests", ...flags])).toBe(0);
  const printed = parseAllDocuments(io.written("stdout")).map((document) => document.toJS() as Manifest);
  expect(await declared()).toEqual(byName(printed));
  await world.edit(
    "metricsFromAllNamespaces: true,",
    'metricsFromAllNamespaces: true, metricsNamespace: "monitoring",',
  );
  expect((await world.engine.preview()).text).toContain("metricsNamespace names one namespace, but all namespaces");
  await world.edit('metricsFromAllNamespaces: true, metricsNamespace: "monitoring",', "");
});

it("prints the objects that RametRuntime declares for served namespaces, and refuses the system's own", async () => {
  const argument = 'servedNamespaces: ["team-a", "team-b"],';
  await world.edit("store: {", `${argument} store: {`);
  for (const namespace of ["team-a", "team-b"]) {
    const manifest = { apiVersion: "v1", kind: "Namespace", metadata: { name: namespace } };
    await client.resource(coreResources.namespaces).create(manifest);
  }
  const io = memoryIo();
  const flags = ["--served-namespace", "team-a", "team-b"];
  expect(await runProgram(io, ["manifests", ...images, "--store-claim", "checkpoints", ...flags])).toBe(0);
  const printed = parseAllDocuments(io.written("stdout")).map((document) => document.toJS() as Manifest);
  expect(await declared()).toEqual(byName(printed));

  await world.edit('"team-b"', '"ramet-system"');
  expect((await world.engine.preview()).text).toContain(
    "servedNamespaces contains ramet-system, which has the keys of all cells and no sandboxes [InvalidArgument]",
  );
  await world.edit('"team-a", "ramet-system"', "");
  expect((await world.engine.preview()).text).toContain(
    "servedNamespaces contains no namespace. Name at least one namespace, or omit it to serve all [InvalidArgument]",
  );
  await world.edit("servedNamespaces: [],", "");
});

it("prints the objects that RametRuntime declares beside other controllers, and names arguments without effect", async () => {
  const cellImage = `cellImage: "registry.example/ramet-cell:1",`;
  const store = `store: ${directory},`;
  await world.edit(store, "");
  await world.edit(cellImage, `mode: "beside",\n  ${cellImage}\n  egress: {},`);
  expect((await world.engine.preview()).text).toContain(
    'Cannot install beside other controllers: egress, cellImage cannot be used with mode "beside", because other controllers run the sandboxes and store their checkpoints [InvalidArgument]',
  );
  await world.edit(`${cellImage}\n  egress: {},`, "");
  const io = memoryIo();
  expect(await runProgram(io, ["manifests", "--image", "registry.example/ramet:1", "--beside=openkruise"])).toBe(0);
  const printed = parseAllDocuments(io.written("stdout")).map((document) => document.toJS() as Manifest);
  expect(await declared("beside")).toEqual(byName(printed));
  expect((await world.engine.preview()).text).toContain("No controller of OpenKruise Agents or ACS was found");
  await world.edit(`mode: "beside",\n`, `${cellImage}\n  ${store}\n`);
});

it("prints objects that an API server accepts unchanged", async () => {
  expect((await world.engine.destroy()).succeeded).toBe(true);
  for (const manifest of manifests) {
    // An apply rejects unknown fields. Fields that the server drops would be missing in its response.
    const applied = await client.resource(refOf(manifest)).apply(manifest, { fieldManager: "kubectl" });
    expect(covers(applied, manifest), `${manifest.kind} ${manifest.metadata.name}`).toBe(true);
  }
});

it("denies access to a cell without the permission to run commands in its sandbox", async () => {
  const namespace = { apiVersion: "v1", kind: "Namespace", metadata: { name: "sandboxes", labels: {} } };
  const namespaces = client.resource(refOf(namespace));
  await namespaces.create(namespace);
  const account = { apiVersion: "v1", kind: "ServiceAccount", metadata: { namespace: "sandboxes", name: "default" } };
  await client.resource(refOf(account)).apply(account, { fieldManager: "test" });
  const at = { namespace: "sandboxes", name: "one" };
  const pods = client.resource(coreResources.pods);
  const spec = { containers: [{ name: "main", image: "python" }] };
  const labelled = { metadata: { ...at, labels: { [labels.cell]: "true" } } };
  await pods.create({ apiVersion: "v1", kind: "Pod", ...labelled, spec });

  const ephemeralContainers = [{ name: "debugger", image: "busybox" }];
  const addContainer = () =>
    runError(pods.mergePatch(at, { spec: { ephemeralContainers } }, { subresource: "ephemeralcontainers" }));
  const setLabel = (value: string | null) =>
    runError(pods.mergePatch(at, { metadata: { labels: { [labels.cell]: value } } }));
  // Policies take effect separately: restore the label if this one is not in effect yet.
  const removeLabel = async () => {
    const error = await setLabel(null);
    if (error === "") await setLabel("true");
    return error;
  };
  const options = { apiVersion: "v1", kind: "PodExecOptions", metadata: {} };
  const enter = (how: string) => runError(pods.postSubresource(at, how, options));
  // A new policy takes effect after a moment.
  await expect
    .poll(addContainer)
    .toMatch(/ephemeral containers are not allowed: run commands with `ramet sandbox exec`/);
  await expect.poll(removeLabel).toMatch(/its label ramet\.dev\/cell cannot be removed/);
  expect(await runError(pods.mergePatch(at, { metadata: { labels: { mine: "too" } } }))).toBe("");
  // The request passes the policies and fails later, because the Pod has no node.
  expect(await enter("exec")).toMatch(/does not have a host assigned/);
  await namespaces.mergePatch({ name: "sandboxes" }, { metadata: { labels: { [labels.denyExec]: "true" } } });
  await expect
    .poll(() => enter("exec"))
    .toMatch(/The label ramet\.dev\/deny-exec of this namespace forbids exec, attach, port-forward and proxy/);
  expect(await enter("attach")).toMatch(
    /The label ramet\.dev\/deny-exec of this namespace forbids exec, attach, port-forward and proxy/,
  );
});

it("prints objects that a program adopts, even before a controller has run", async () => {
  expect(await world.engine.preview()).toMatchObject({ succeeded: true, outputs: { mode: "adopt" } });
});

/** The error message of a request; empty if it succeeds. */
async function runError(request: Promise<unknown>): Promise<string> {
  return request.then(
    () => "",
    (error: unknown) => RametError.from(error).message,
  );
}

/** Runs the program, and returns the objects that it declares. */
async function declared(mode = "install"): Promise<object> {
  const up = await world.engine.up();
  expect(up).toMatchObject({ succeeded: true, outputs: { mode } });
  const objects = State.parse(JSON.parse(await world.state())).resources.flatMap(({ parent, inputs }) =>
    parent.endsWith("RametRuntime::ramet") ? [inputs] : [],
  );
  return byName(objects.map((inputs) => withoutPulumi(inputs as Manifest)));
}

function byName(objects: readonly object[]): object {
  return Object.fromEntries(
    objects.map((object) => {
      const { kind, metadata } = object as Manifest;
      return [`${kind} ${metadata.namespace ?? ""}/${metadata.name}`, object];
    }),
  );
}

/** Removes the annotations that only a program adds: the owner, and settings of Pulumi's plugin. */
function withoutPulumi({ metadata: { annotations = {}, ...metadata }, ...manifest }: Manifest): Manifest {
  const others = Object.entries(annotations).filter(
    ([name]) => name !== ownerAnnotation && !name.startsWith("pulumi.com/"),
  );
  const kept = others.length === 0 ? {} : { annotations: Object.fromEntries(others) };
  return { ...manifest, metadata: { ...metadata, ...kept } };
}

function refOf({ apiVersion, kind, metadata }: Manifest): ResourceRef {
  const [version = "", group = ""] = apiVersion.split("/").reverse();
  const plural = `${kind.toLowerCase()}s`.replace(/ys$/, "ies");
  return { group, version, plural, kind, namespaced: metadata.namespace !== undefined };
}

const State = z.looseObject({
  resources: z.array(z.looseObject({ parent: z.string(), inputs: z.record(z.string(), z.unknown()) })),
});
