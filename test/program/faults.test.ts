import { randomUUID } from "node:crypto";
import { chmod, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, it } from "vitest";
import { refOf } from "../../src/kube/resource-ref.ts";
import { checkpointKind } from "../../src/api/kinds/checkpoint.ts";
import { namedSnapshotKind } from "../../src/api/kinds/named-snapshot.ts";
import { sandboxKind } from "../../src/api/kinds/sandbox.ts";
import { sandboxSetKind } from "../../src/api/kinds/sandbox-set.ts";
import { sandboxTemplateKind } from "../../src/api/kinds/sandbox-template.ts";
import { installCrds } from "../../src/controllers/install-crds.ts";
import { KubeClient } from "../../src/kube/kube-client.ts";
import { startControlPlane, type OwnControlPlane } from "../setup/control-plane.ts";
import { serviceAccounts, tokenOf, writeKubeconfig } from "../setup/service-accounts.ts";
import { providerTexts } from "./provider-texts.ts";
import { openProgram } from "./program-world.ts";
import { ProviderWorld, type Kept } from "./provider-world.ts";

/** An API server without controllers. */
let plane: OwnControlPlane;
let client: KubeClient;
let world: ProviderWorld;
let directory: string;

beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), "ramet-faults-"));
  plane = await startControlPlane();
  client = new KubeClient(plane.connection);
  world = await ProviderWorld.open({ kubeconfig: plane.kubeconfigPath });
});

afterAll(async () => {
  await world.close();
  await client.close();
  await plane.stop();
  await rm(directory, { recursive: true, force: true });
});

it("explains how to install Ramet's CRDs if they are missing", async () => {
  const hint = /Ramet's CRDs are not installed\. Add a RametRuntime.*to dependsOn.*ramet local up/;
  await expect(world.up("namedSnapshot", requestFor("data"))).rejects.toThrow(hint);
  await expect(world.up("sandboxClone", cloneRequest("dev"))).rejects.toThrow(hint);
  await expect(world.up("sandboxClone", { ...cloneRequest("dev"), ports: [8000] })).rejects.toThrow(hint);
  await installCrds(client);
  const elsewhere = { ...requestFor("data"), namespace: "nowhere" };
  await expect(world.up("namedSnapshot", elsewhere)).rejects.toThrow(/namespaces "nowhere" not found/);
});

it("rejects a source or a template in another namespace", async () => {
  const program = await openProgram("test/program/programs/apart", { kubeconfig: plane.kubeconfigPath });
  try {
    const kubeconfig = await program.unreachable(plane.kubeconfigPath);
    for (const [kind, what] of [
      ["NamedSnapshot", "source"],
      ["SandboxSet", "source"],
      ["SandboxClone", "template"],
    ] as const) {
      const configuration = { "program:kind": kind };
      const preview = await program.engine.with({ kubeconfig, configuration }).preview();
      expect(preview.succeeded).toBe(false);
      expect(preview.text).toContain(
        `apart is in the namespace b, but its ${what} is in the namespace a. Use the same namespace`,
      );
    }
  } finally {
    await program.remove();
  }
});

it("creates sets and sandboxes from existing objects by name, applies transforms, and respects the timeout", async () => {
  const program = await openProgram("test/program/programs/by-name", { kubeconfig: plane.kubeconfigPath });
  try {
    expect((await program.engine.up()).succeeded).toBe(false);
    const made = async (kind: Parameters<typeof refOf>[0], name: string) =>
      client.resource(refOf(kind)).get({ namespace: "default", name });
    const labels = { team: "a" };
    expect(await made(sandboxTemplateKind, "python")).toMatchObject({ metadata: { labels } });
    const template = { metadata: { annotations: { "ramet.dev/restore-from": "data@7" } } };
    expect(await made(sandboxSetKind, "of-snapshot")).toMatchObject({ metadata: { labels }, spec: { template } });
    const spec = { templateRef: { name: "theirs" } };
    expect(await made(sandboxSetKind, "of-template")).toMatchObject({ spec });
    expect(await made(sandboxKind, "box")).toMatchObject({ metadata: { labels }, spec });
  } finally {
    await program.remove();
  }
});

it("rejects a set whose sandboxes would lose volumes, in a preview", async () => {
  const program = await openProgram("test/program/programs/set-volumes", { kubeconfig: plane.kubeconfigPath });
  const preview = (configuration: Record<string, string>) => program.engine.with({ configuration }).preview();
  const { apiVersion, kind } = checkpointKind;
  const checkpoints = client.resource(refOf(checkpointKind));
  const captured = { namespace: "default", name: "captured" };
  await checkpoints.create({ apiVersion, kind, metadata: captured, spec: { podName: "source" } });
  const ramet = { volumes: [{ volume: "work", claim: "work-of-source" }] };
  const status = { phase: "Succeeded", checkpointId: "of-source", ramet };
  await checkpoints.mergePatch(captured, { status }, { subresource: "status" });
  try {
    for (const [configuration, volume] of [
      [{}, "home"],
      [{ "program:from": "of-source" }, "work"],
    ] as const) {
      const refused = await preview(configuration);
      expect(refused.succeeded).toBe(false);
      expect(refused.text).toMatch(
        new RegExp(`The set pool: volumesOnRestore is required: .* ${volume} is not in .*VolumesNotCaptured`),
      );
      expect(await preview({ ...configuration, "program:choice": "Empty" })).toMatchObject({ succeeded: true });
    }
  } finally {
    await checkpoints.delete(captured);
    await program.remove();
  }
});

it("previews a program with unknown values on an unreachable cluster", async () => {
  const program = await openProgram("test/program/programs/unknowns", { kubeconfig: plane.kubeconfigPath });
  try {
    const kubeconfig = await program.unreachable(plane.kubeconfigPath);
    const preview = await program.engine.with({ kubeconfig }).preview();
    expect(preview.text).not.toMatch(/error/i);
    expect(preview.succeeded).toBe(true);
    expect(preview.outputs["knownDigest"]).toMatch(/^sha256:/);
    expect(JSON.stringify(preview.outputs["digests"])).not.toMatch(/sha256:/);
    const configuration = { "program:timeout": "soon" };
    const refused = await program.engine.with({ kubeconfig, configuration }).preview();
    expect(refused.succeeded).toBe(false);
    expect(refused.text).toMatch(/error: data: timeout: .*soon/);
  } finally {
    await program.remove();
  }
});

it("rejects an object that another stack declares, and keeps it", async () => {
  const kept = await declared("mine", "organization/program/theirs/mine");
  await expect(world.up("namedSnapshot", requestFor("mine"))).rejects.toThrow(
    /NamedSnapshot default\/mine is declared by organization\/program\/theirs\/mine\. Use another name/,
  );
  // An earlier program made it without a name in it.
  await expect(world.up("sandboxClone", cloneRequest("box"))).rejects.toThrow(
    /Sandbox default\/box exists, and this program does not declare it/,
  );
  await expect(world.up("sandboxClone", cloneRequest("ours"))).rejects.toThrow(/timed out after/);
  await expect(
    world.up("sandboxClone", { ...cloneRequest("ours"), owner: "organization/other/test/ours" }),
  ).rejects.toThrow(/Sandbox default\/ours is declared by organization\/program\/test\/ours/);
  // It does not delete what it does not declare.
  await world.delete(kept);
  expect(world.lines.join("\n")).toMatch(
    /mine: not deleted, because it is now declared by organization\/program\/theirs\/mine/,
  );
  expect(await client.resource(refOf(namedSnapshotKind)).find({ namespace: "default", name: "mine" })).toBeDefined();
});

it("reports an expired token, and uses the state in a preview", async () => {
  await world.restart({ kubeconfig: await kubeconfigWith({ token: "expired" }) });
  const kept = stateOf("data");
  await expect(world.refresh(kept)).rejects.toThrow(/Unauthorized.*they may have expired \[Unauthorized\]/s);
  expect(await world.preview("namedSnapshot", requestFor("data", [{ run: "false" }]), kept)).toMatchObject({
    changes: true,
  });
  expect(world.lines.join("\n")).toMatch(
    /rebuilds from step 1 of 1; according to the state, because the cluster is unreadable: .*Unauthorized/,
  );
});

it("renews an expired token with the kubeconfig's credential program, and reports its failure", async () => {
  const token = await newToken("renewing");
  const script = await scriptThatPrints([credential("expired"), credential(token)]);
  await world.restart({
    configuration: { "kubernetes:kubeconfig": await readFile(await kubeconfigWith({ exec: exec(script) }), "utf8") },
  });
  expect(await world.refresh(stateOf("nothing"))).toBeUndefined();
  expect((await readFile(`${script}.count`, "utf8")).trim()).toBe("2");
  const missing = { ...exec(join(directory, "not-there")), installHint: "Install the login program" };
  await world.restart({ kubeconfig: await kubeconfigWith({ exec: missing }) });
  await expect(world.refresh(stateOf("nothing"))).rejects.toThrow(
    /credential program .*not-there failed.*Install the login program/s,
  );
});

it("stops waiting when its credentials are no longer accepted", async () => {
  const accounts = client.resource(serviceAccounts);
  await world.restart({ kubeconfig: await kubeconfigWith({ token: await newToken("leaving") }) });
  const waiting = world.up("namedSnapshot", requestFor("waits"));
  const ended = expect(waiting).rejects.toThrow(/Unauthorized.*they may have expired/s);
  await expect.poll(() => world.lines).toContain("waits: waiting for the controller");
  await accounts.delete({ namespace: "default", name: "leaving" });
  // Credentials are checked again only on a new connection.
  await plane.restartApiServer();
  await ended;
});

function requestFor(name: string, recipe: object[] = [{ run: "true" }]): Kept["inputs"] {
  const owner = `organization/program/test/${name}`;
  const source = { checkpoint: { id: "some-checkpoint" } };
  return { name, namespace: "default", owner, from: source, source, recipe, timeout: "2 minutes" };
}

function cloneRequest(name: string): Kept["inputs"] {
  const owner = `organization/program/test/${name}`;
  return { name, namespace: "default", owner, from: "some-checkpoint", timeout: "1 second" };
}

function stateOf(name: string): Kept {
  const inputs = { ...requestFor(name), __provider: providerTexts.namedSnapshot };
  return { id: `default/${name}`, inputs, outputs: { ...inputs, contents: ["memory", "filesystem"] } };
}

/** An object that another stack declares. */
async function declared(name: string, owner: string): Promise<Kept> {
  const { apiVersion } = namedSnapshotKind;
  const { from, recipe } = requestFor(name);
  const annotations = { "ramet.dev/pulumi-resource": owner };
  const manifest = {
    apiVersion,
    kind: "NamedSnapshot",
    metadata: { name, namespace: "default", annotations },
    spec: { from, recipe },
  };
  await client.resource(refOf(namedSnapshotKind)).create(manifest);
  return stateOf(name);
}

/** A kubeconfig of the API server with another user. */
async function kubeconfigWith(user: object): Promise<string> {
  const path = join(directory, `kubeconfig-${randomUUID()}`);
  await writeKubeconfig(path, { like: plane.kubeconfigPath, user });
  return path;
}

/** A token of a service account with the role cluster-admin. */
async function newToken(name: string): Promise<string> {
  const metadata = { name, namespace: "default" };
  await client.resource(serviceAccounts).create({ apiVersion: "v1", kind: "ServiceAccount", metadata });
  const apiGroup = "rbac.authorization.k8s.io";
  await client.resource(bindings).create({
    apiVersion: `${apiGroup}/v1`,
    kind: "ClusterRoleBinding",
    metadata: { name },
    roleRef: { apiGroup, kind: "ClusterRole", name: "cluster-admin" },
    subjects: [{ kind: "ServiceAccount", ...metadata }],
  });
  return tokenOf(client, metadata);
}

/** A credential program that prints one answer per run, and then repeats the last one. It counts its runs. */
async function scriptThatPrints(answers: readonly string[]): Promise<string> {
  const path = join(directory, "login");
  const cases = answers.map(
    (answer, index) => `${index === answers.length - 1 ? "*" : index + 1}) echo '${answer}' ;;`,
  );
  const count = `n=$(($(cat "$0.count" 2>/dev/null || echo 0) + 1)); echo $n > "$0.count"`;
  await writeFile(path, `#!/bin/sh\n${count}\ncase $n in\n${cases.join("\n")}\nesac\n`);
  await chmod(path, 0o755);
  return path;
}

function exec(command: string): object {
  return { apiVersion: "client.authentication.k8s.io/v1", command, interactiveMode: "Never" };
}

/** The credential claims to be valid for an hour. Only the API server knows that it has expired. */
function credential(token: string): string {
  const expirationTimestamp = new Date(Date.now() + 3_600_000).toISOString();
  return JSON.stringify({ ...exec(""), kind: "ExecCredential", status: { token, expirationTimestamp } });
}

const bindings = {
  group: "rbac.authorization.k8s.io",
  version: "v1",
  plural: "clusterrolebindings",
  kind: "ClusterRoleBinding",
  namespaced: false,
};
