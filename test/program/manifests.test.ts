import { setImmediate } from "node:timers/promises";
import { log, runtime } from "@pulumi/pulumi";
import { afterAll, beforeAll, describe, expect, it, vi } from "vitest";
import { parseAllDocuments } from "yaml";
import * as z from "zod";
import { RametRuntime, type RametRuntimeArgs } from "../../components/index.ts";
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
const claim = ["--store-claim", "checkpoints"];
let plane: TestControlPlane;
let world: ProgramWorld;
let client: KubeClient;
let manifests: Manifest[];

beforeAll(async () => {
  plane = await startControlPlane({ apis: "all" });
  client = new KubeClient(plane.connection);
  world = await openProgram("test/program/programs/install", { kubeconfig: plane.kubeconfigPath });
  manifests = Object.values(await printed(...images, ...claim));
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
  expect(await declared()).toEqual(await printed(...images, ...claim));
});

describe("without an engine", () => {
  it("prints the objects that RametRuntime declares with a store in S3, without a warning about a mount", async () => {
    const roleArn = "arn:aws:iam::123456789012:role/ramet";
    const s3 = { bucket: "checkpoints", prefix: "ramet", region: "eu-central-1", roleArn };
    const store = ["--store", "s3://checkpoints/ramet?region=eu-central-1", "--store-role-arn", roleArn];
    const { objects, warnings } = await declaration({ store: { s3 } });
    expect(objects).toEqual(await printed(...images, ...store));
    expect(warnings).not.toContain("mount");
    expect(await refusal({ store: { s3: { ...s3, bucket: "Checkpoints" } } })).toContain(
      "the store in S3: bucket must be the name of a bucket [InvalidArgument]",
    );
    const both: object = { directory: "/var/lib/ramet", s3 };
    expect(await refusal({ store: both })).toContain("The argument store sets more than one kind of store");
  });

  it("prints the objects that RametRuntime declares with a store in Google Cloud Storage", async () => {
    const serviceAccount = "ramet@project.iam.gserviceaccount.com";
    const { objects } = await declaration({
      store: { gcs: { bucket: "checkpoints", prefix: "ramet", serviceAccount } },
    });
    const store = ["--store", "gs://checkpoints/ramet", "--store-service-account", serviceAccount];
    expect(objects).toEqual(await printed(...images, ...store));
  });

  it("prints the objects that RametRuntime declares with settings of the gateways, and refuses an invalid one", async () => {
    const gateway = {
      trustedProxies: ["10.0.0.0/16", "2001:db8::/32"],
      maxConnections: 5000,
      maxConnectionsPerClient: 50,
      acceptTokensByReviewOnly: true,
    };
    const { objects } = await declaration({
      metricsNamespace: "monitoring",
      namespaceSelector: "team in (a,b)",
      gateway,
    });
    const served = ["--metrics-namespace", "monitoring", "--namespace-selector", "team in (a,b)"];
    const proxies = ["--gateway-trusted-proxy", "10.0.0.0/16", "2001:db8::/32"];
    const limits = ["--gateway-max-connections", "5000", "--gateway-max-connections-per-client", "50"];
    const flags = [...served, ...proxies, ...limits, "--gateway-accept-tokens-by-review-only"];
    expect(objects).toEqual(await printed(...images, ...claim, ...flags));
    expect(await refusal({ gateway: { ...gateway, trustedProxies: ["10.0.0.0"] } })).toContain(
      'gateway.trustedProxies is not a network, such as 10.0.0.0/16: "10.0.0.0" [InvalidArgument]',
    );
    expect(await refusal({ gateway: { ...gateway, maxConnections: 0 } })).toContain(
      "gateway.maxConnections must be at least 1 [InvalidArgument]",
    );
  });

  it("declares and prints the same when all namespaces can read metrics, and refuses to name one of them too", async () => {
    const { objects } = await declaration({ metricsFromAllNamespaces: true });
    expect(objects).toEqual(await printed(...images, ...claim, "--metrics-from-all-namespaces"));
    expect(await refusal({ metricsFromAllNamespaces: true, metricsNamespace: "monitoring" })).toContain(
      "metricsNamespace names one namespace, but all namespaces",
    );
  });

  it("prints the objects that RametRuntime declares for served namespaces, and refuses the system's own", async () => {
    for (const name of ["team-a", "team-b"]) {
      const namespace = { apiVersion: "v1", kind: "Namespace", metadata: { name } };
      await client.resource(coreResources.namespaces).create(namespace);
    }
    const { objects } = await declaration({ servedNamespaces: ["team-a", "team-b"] });
    expect(objects).toEqual(await printed(...images, ...claim, "--served-namespace", "team-a", "team-b"));
    expect(await refusal({ servedNamespaces: ["team-a", "ramet-system"] })).toContain(
      "servedNamespaces contains ramet-system, which has the keys of all cells and no sandboxes [InvalidArgument]",
    );
    expect(await refusal({ servedNamespaces: [] })).toContain(
      "servedNamespaces contains no namespace. Name at least one namespace, or omit it to serve all [InvalidArgument]",
    );
  });

  it("prints the objects that RametRuntime declares beside other controllers, and names arguments without effect", async () => {
    const image = "registry.example/ramet:1";
    expect(await refusal({ mode: "beside", image, cellImage: "registry.example/ramet-cell:1", egress: {} })).toContain(
      'Cannot install beside other controllers: egress, cellImage cannot be used with mode "beside", because other controllers run the sandboxes and store their checkpoints [InvalidArgument]',
    );
    const { objects } = await declaration({ mode: "beside", image });
    expect(objects).toEqual(await printed("--image", image, "--beside=openkruise"));
  });
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
async function declared(): Promise<Record<string, Manifest>> {
  const up = await world.engine.up();
  expect(up).toMatchObject({ succeeded: true, outputs: { mode: "install" } });
  const objects = State.parse(JSON.parse(await world.state())).resources.flatMap(({ type, parent, inputs }) =>
    type.startsWith("kubernetes:") && parent.endsWith("RametRuntime::ramet") ? [inputs] : [],
  );
  return byName(objects.map((inputs) => withoutPulumi(inputs as unknown as Manifest)));
}

/**
 * What the program declares with these arguments: a mock in place of the engine records the objects, so the component reads no
 * cluster. The API server accepts them.
 */
async function declaration(args: RametRuntimeArgs): Promise<{ objects: Record<string, Manifest>; warnings: string }> {
  const declaredObjects: Manifest[] = [];
  const warn = vi.spyOn(log, "warn").mockResolvedValue();
  try {
    const component = await runtimeWith(args, declaredObjects);
    await component.nodes.objects;
    expect(await new Promise((resolve) => component.mode.apply(resolve))).toBe(args.mode ?? "install");
    await runtime.disconnect();
    const objects = byName(declaredObjects.map(withoutPulumi));
    for (const manifest of Object.values(objects)) {
      await client.resource(refOf(manifest)).apply(manifest, { fieldManager: "kubectl", force: true });
    }
    return { objects, warnings: warn.mock.calls.map(([text]) => text).join("\n") };
  } finally {
    warn.mockRestore();
  }
}

/** The error that ends the program with these arguments. All outputs that depend on them are rejected with it, and nobody reads them. */
async function refusal(args: RametRuntimeArgs): Promise<string> {
  const others = process.listeners("unhandledRejection");
  const messages = new Set<string>();
  process.removeAllListeners("unhandledRejection");
  process.on("unhandledRejection", (error) => messages.add(RametError.from(error).message));
  try {
    const component = await runtimeWith(args, []);
    await component.nodes.objects.catch(() => undefined);
    await expect.poll(() => [...messages]).toHaveLength(1);
    await runtime.disconnect().catch(() => undefined);
    await setImmediate();
    expect([...messages]).toHaveLength(1);
    return [...messages].join("");
  } finally {
    process.removeAllListeners("unhandledRejection");
    for (const listener of others) process.on("unhandledRejection", listener);
  }
}

async function runtimeWith(args: RametRuntimeArgs, declaredObjects: Manifest[]): Promise<RametRuntime> {
  const mocks: runtime.Mocks = {
    newResource: ({ type, name, inputs }) => {
      if (type.startsWith("kubernetes:")) declaredObjects.push(inputs as Manifest);
      return { id: `${name}-id`, state: inputs as object };
    },
    call: ({ inputs }) => inputs as object,
  };
  // The names of the program, so that the component recognizes its own objects.
  await runtime.setMocks(mocks, "program", "test");
  const usual: RametRuntimeArgs = {
    image: "registry.example/ramet:1",
    cellImage: "registry.example/ramet-cell:1",
    store: { directory: "/var/lib/ramet", claim: "checkpoints" },
  };
  return new RametRuntime("ramet", { ...(args.mode !== "beside" && usual), ...args });
}

/** The objects that the command line prints. */
async function printed(...words: string[]): Promise<Record<string, Manifest>> {
  const io = memoryIo();
  expect(await runProgram(io, ["manifests", ...words])).toBe(0);
  return byName(parseAllDocuments(io.written("stdout")).map((document) => document.toJS() as Manifest));
}

function byName(objects: readonly Manifest[]): Record<string, Manifest> {
  return Object.fromEntries(
    objects.map((object) => {
      const { kind, metadata } = object;
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
  resources: z.array(
    z.looseObject({ type: z.string(), parent: z.string(), inputs: z.record(z.string(), z.unknown()) }),
  ),
});
