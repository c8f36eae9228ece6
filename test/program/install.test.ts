import { spawn, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, expect, it } from "vitest";
import * as z from "zod";
import { ownerAnnotation } from "../../src/api/names/labels.ts";
import { apiVersion } from "../../src/api/schema/kind.ts";
import { RametError } from "../../src/base/errors.ts";
import { kinds } from "../../src/api/kinds/crd.ts";
import {
  controllerName,
  controllersLease,
  cellKeySecret,
  gatewayKeySecret,
  gatewayName,
  guestKeySecret,
  localNodeLabels,
  systemNamespace,
} from "../../src/api/names/system-names.ts";
import { KubeClient } from "../../src/kube/kube-client.ts";
import { connectionFromKubeconfig } from "../../src/kube/kubeconfig.ts";
import { microTime } from "../../src/kube/lease.ts";
import { coreResources } from "../../src/kube/resource-ref.ts";
import type { RunResult } from "../engine/engine.ts";
import { startControlPlane, type TestControlPlane } from "../setup/control-plane.ts";
import { accountToken, allowToReach, ask } from "../setup/gateway.ts";
import { tokenOf, writeKubeconfig } from "../setup/service-accounts.ts";
import { openProgram, type ProgramWorld } from "./program-world.ts";

const ramet = fileURLToPath(new URL("../../bin/ramet.mjs", import.meta.url));

const deployments = { group: "apps", version: "v1", plural: "deployments", kind: "Deployment", namespaced: true };

/**
 * Tests which objects are declared, and whether their permissions suffice, on an API server without the Deployment controller.
 * The tests depend on their order.
 */
let plane: TestControlPlane;
let world: ProgramWorld;
let client: KubeClient;
let directory: string;

beforeAll(async () => {
  plane = await startControlPlane({ apis: "all" });
  world = await openProgram("test/program/programs/install", { kubeconfig: plane.kubeconfigPath });
  client = new KubeClient(plane.connection);
  directory = await mkdtemp(join(tmpdir(), "ramet-install-"));
});

afterAll(async () => {
  await client.close();
  await world.remove();
  await plane.stop();
  await rm(directory, { recursive: true, force: true });
});

it("previews an installation on an unreachable cluster", async () => {
  const kubeconfig = await world.unreachable(plane.kubeconfigPath);
  const preview = await world.engine.with({ kubeconfig }).preview();
  expect(preview.text).toMatch(/Cannot read the cluster, so it is unknown whether controllers run/);
  expect(preview).toMatchObject({ succeeded: true, outputs: { mode: "install" } });
  expect(preview.steps.map(({ type }) => type)).toContain("kubernetes:apps/v1:Deployment");
});

it("reads the cluster of the program's own provider after its dependencies exist", async () => {
  const { kubeconfigPath: path } = plane;
  const configuration = { "program:kubeconfig": path };
  // The default cluster is not the one of its objects.
  const own = await openProgram("test/program/programs/own-provider", {
    kubeconfig: await world.unreachable(path),
    configuration,
  });
  try {
    const run = (configured: Record<string, string>) =>
      own.engine.with({ configuration: { ...configuration, ...configured } }).preview();
    expect((await run({})).text).toMatch(/also as the argument kubeconfig \[InvalidArgument\]/);
    const usual = { "program:passKubeconfig": "true", "program:useDefaultProvider": "true" };
    expect((await run(usual)).text).toMatch(/would declare the objects in https:\/\/127\.0\.0\.1:9/);
    expect(await run({ "program:passKubeconfig": "true" })).toMatchObject({
      succeeded: true,
      outputs: { mode: "install" },
    });
    const reached = own.engine.with({ kubeconfig: path });
    const up = await reached
      .with({ configuration: { ...configuration, "program:passKubeconfig": "true", "program:waitForNode": "true" } })
      .up();
    expect(up.text).toMatch(/already run in this cluster: the cluster on one machine with the node machine/);
    await reached.destroy();
  } finally {
    await own.remove();
  }
});

it("declares the controllers if there are none, and keeps declaring them", async () => {
  const up = await world.engine.up();
  expect(up.text).not.toMatch(/error/);
  expect(up).toMatchObject({ succeeded: true, outputs: { mode: "install" } });
  const declared = (await client.resource(deployments).list()).items;
  expect(declared.map(({ metadata: { name } }) => name)).toEqual([controllerName, gatewayName]);
  const [deployment] = declared;
  expect(deployment?.metadata.annotations, "transform").toMatchObject({ "pulumi.com/skipAwait": "true" });
  const again = await world.engine.up();
  expect(again.succeeded).toBe(true);
  expect(again.steps.filter(({ operation }) => operation !== "same")).toEqual([]);
});

it("gives the controllers the permissions that they need", async () => {
  const kubeconfig = await asAccount(controllerName);
  const controller = spawn(process.execPath, [
    ramet,
    "controller",
    "--leader-elect",
    "--kubeconfig",
    kubeconfig,
    "--store-directory",
    join(directory, "store"),
    "--cell-image",
    "cell",
    "--log-level",
    "debug",
  ]);
  const log = new Log(controller);
  try {
    await log.until(/the controllers are running/);
    await makeOneOfEach();
    await untilReconciled("sandboxes", "sandboxsets", "checkpoints", "sandboxclaims", "namedsnapshots");
    expect(log.text.split("\n").filter((line) => /forbidden/i.test(line))).toEqual([]);
  } finally {
    controller.kill("SIGTERM");
    await once(controller, "exit");
  }
});

it("gives the gateways the permissions that they need, and no other key than their own", async () => {
  const kubeconfig = await asAccount(gatewayName);
  const gateway = spawn(process.execPath, [
    ramet,
    "gateway",
    "--kubeconfig",
    kubeconfig,
    "--port",
    "0",
    "--log-level",
    "debug",
  ]);
  const log = new Log(gateway);
  try {
    await log.until(/the gateway accepts connections/);
    const port = Number(/"port":(\d+)/.exec(log.text)?.[1]);
    const asked = async (name: string) => {
      const token = await accountToken(client, { namespace: "default", name });
      return (await ask({ port }, { id: "default--none", port: 80 }, { token })).status;
    };
    expect(await asked("stranger")).toBe(403);
    await allowToReach(client, "default", { namespace: "default", name: "caller" });
    // An authorized client learns that the sandbox does not exist.
    expect(await asked("caller")).toBe(502);
    expect(log.text.split("\n").filter((line) => /is forbidden/i.test(line))).toEqual([]);
  } finally {
    gateway.kill("SIGTERM");
    expect(await once(gateway, "exit")).toEqual([0, null]);
  }
  const own = new KubeClient(await connectionFromKubeconfig({ path: kubeconfig }));
  const reads = (name: string) =>
    own
      .resource(coreResources.secrets)
      .get({ namespace: systemNamespace, name })
      .then(
        () => "reads",
        (error: unknown) => RametError.from(error).code,
      );
  const read = await Promise.all([gatewayKeySecret, guestKeySecret, cellKeySecret].map(reads));
  expect(read).toEqual(["reads", "reads", "Forbidden"]);
  await own.close();
});

it("deletes nothing if the Deployment was deleted, and creates it again after a refresh", async () => {
  const at = { namespace: systemNamespace, name: controllerName };
  await client.resource(deployments).delete(at);
  const up = await world.engine.up();
  expect(up).toMatchObject({ succeeded: true, outputs: { mode: "install" } });
  expect(removed(up)).toEqual([]);
  await world.engine.refresh();
  expect((await world.engine.up()).succeeded).toBe(true);
  expect(await client.resource(deployments).find(at)).toBeDefined();
});

it("rejects another name, and accepts it with an alias", async () => {
  await world.edit('new RametRuntime("ramet"', 'new RametRuntime("renamed"');
  const refused = await world.engine.preview();
  expect(refused.succeeded).toBe(false);
  expect(refused.text).toContain(
    "declared by organization/program/test/ramet, not by organization/program/test/renamed",
  );
  const aliases = '{ aliases: ["urn:pulumi:test::program::ramet:index:RametRuntime::ramet"] }';
  await world.edit(`${transform},\n}`, `${transform},\n}, ${aliases}`);
  const up = await world.engine.up();
  expect(up.text).not.toMatch(/error/);
  expect(up).toMatchObject({ succeeded: true, outputs: { mode: "install" } });
  expect(removed(up)).toEqual([]);
  const deployment = await client.resource(deployments).get({ namespace: systemNamespace, name: controllerName });
  expect(deployment.metadata.annotations).toMatchObject({
    [ownerAnnotation]: "organization/program/test/renamed",
  });
});

it("refuses to adopt its own controllers", async () => {
  await world.edit(transform, `mode: "adopt", ${transform}`);
  const refused = await world.engine.up();
  await world.edit(`mode: "adopt", ${transform}`, transform);
  expect(refused.succeeded).toBe(false);
  expect(refused.text).toMatch(/adopting would delete them/);
});

it("keeps CRDs and the namespace when it is destroyed, and can be installed again", async () => {
  expect((await world.engine.destroy()).succeeded).toBe(true);
  const crds = await client.resource(coreResources.crds).list();
  expect(crds.items).toHaveLength(kinds.length);
  expect((await client.resource(deployments).list()).items).toEqual([]);
  expect((await world.engine.preview()).outputs).toMatchObject({ mode: "install" });
  await world.edit(transform, `mode: "adopt", ${transform}`);
  expect((await world.engine.preview()).text).toMatch(/Cannot adopt: no Ramet controllers run/);
  await world.edit(`mode: "adopt", ${transform}`, transform);
});

it("adopts controllers without a Deployment if one renews the lease, but not after it was killed", async () => {
  const stop = new AbortController();
  const renewing = renewUntil(stop.signal);
  expect((await world.engine.preview()).outputs).toMatchObject({ mode: "adopt" });
  stop.abort();
  await renewing;
  expect((await world.engine.preview()).outputs).toMatchObject({ mode: "install" });
});

it("adopts the controllers of a cluster on one machine", async () => {
  const metadata = { name: "machine", labels: localNodeLabels };
  await client.resource(coreResources.nodes).create({ apiVersion: "v1", kind: "Node", metadata });
  expect((await world.engine.preview()).outputs).toMatchObject({ mode: "adopt" });
});

/** Renews the lease like a controller without a Deployment, and leaves it like a killed one. */
async function renewUntil(signal: AbortSignal): Promise<void> {
  const leases = client.resource(coreResources.leases);
  const at = { namespace: systemNamespace, name: controllersLease };
  while (!signal.aborted) {
    await leases.mergePatch(at, { spec: { holderIdentity: "somebody", renewTime: microTime(new Date()) } });
    await delay(1_000);
  }
}

const transform = "transform: { object: notAwaited }";

/** The objects that a run deleted. */
function removed({ steps }: RunResult): string[] {
  const objects = steps.filter(({ type }) => type.startsWith("kubernetes:"));
  return objects.filter(({ operation }) => /delete|retain|replace/.test(operation)).map(({ name }) => name);
}

/** A kubeconfig with a token of an installed service account. */
async function asAccount(name: string): Promise<string> {
  const account = { namespace: systemNamespace, name };
  const path = join(directory, `${name}.kubeconfig`);
  await writeKubeconfig(path, { like: plane.kubeconfigPath, user: { token: await tokenOf(client, account) } });
  return path;
}

async function makeOneOfEach(): Promise<void> {
  const template = { spec: { containers: [{ name: "main", image: "python", command: ["sleep", "infinity"] }] } };
  const volumeClaimTemplates = [
    {
      metadata: { name: "data" },
      spec: { accessModes: ["ReadWriteOnce"], resources: { requests: { storage: "1Gi" } } },
    },
  ];
  await create("SandboxTemplate", "base", { template });
  await create("Sandbox", "one", { template, volumeClaimTemplates });
  await create("SandboxSet", "pool", { replicas: 1, template });
  await create("SandboxClaim", "claim", { templateName: "pool" });
  await create("Checkpoint", "captured", { podName: "one" });
  const secret = { metadata: { name: "s", namespace: "default" }, stringData: { a: "b" } };
  await client.resource(coreResources.secrets).create({ apiVersion: "v1", kind: "Secret", ...secret });
  const recipe = [{ copy: { path: "/s", secretKeyRef: { name: "s", key: "a" } } }];
  await create("NamedSnapshot", "snap", { from: { template: { name: "base" } }, recipe });
}

async function create(kind: string, name: string, spec: object): Promise<void> {
  const manifest = { kind, metadata: { name, namespace: "default" }, spec };
  await client
    .resource(refOf(kind))
    .create({ apiVersion: refOf(kind).group === "ramet.dev" ? "ramet.dev/v1alpha1" : apiVersion, ...manifest });
}

/** Waits until the controllers have written a status to each object. */
async function untilReconciled(...plurals: string[]): Promise<void> {
  for (const plural of plurals) {
    const found = kinds.find((kind) => kind.plural === plural);
    const resource = client.resource(refOf(found?.kind ?? ""), (value) => WithStatus.parse(value));
    await expect
      .poll(
        async () => (await resource.list({ namespace: "default" })).items.every(({ status }) => status !== undefined),
        {
          timeout: 60_000,
          message: plural,
        },
      )
      .toBe(true);
  }
}

function refOf(kind: string) {
  const found = kinds.find((one) => one.kind === kind);
  if (found === undefined) throw new Error(`there is no kind ${kind}`);
  return { group: found.group, version: "v1alpha1", plural: found.plural, kind, namespaced: true };
}

/** The output of a process. */
class Log {
  text = "";
  readonly #child: ChildProcess;

  constructor(child: ChildProcess) {
    this.#child = child;
    for (const stream of [child.stdout, child.stderr]) {
      stream?.on("data", (chunk: Buffer) => (this.text += chunk.toString()));
    }
  }

  async until(pattern: RegExp): Promise<void> {
    await expect
      .poll(() => this.#child.exitCode ?? pattern.test(this.text), { timeout: 60_000, message: this.text })
      .toBe(true);
  }
}

const WithStatus = z.looseObject({
  metadata: z.looseObject({ name: z.string(), uid: z.string(), resourceVersion: z.string() }),
  status: z.looseObject({}).optional(),
});
