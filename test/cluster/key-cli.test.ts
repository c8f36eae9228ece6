import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { parse } from "yaml";
import { apiKeyDigest, apiKeyId, readApiKey } from "../../src/api/keys/api-key-text.ts";
import { acceptsDigest } from "../../src/api/keys/api-key-rules.ts";
import { type ApiKey, apiKeyKind } from "../../src/api/kinds/api-key.ts";
import { type Clock, systemClock } from "../../src/base/clock.ts";
import { runProgram } from "../../src/cli/program.ts";
import { clientRole } from "../../src/install/http-server-rights.ts";
import { coreResources, refOf } from "../../src/kube/resource-ref.ts";
import { openTenantCluster, type TenantCluster, untilRefused } from "../hostile/tenant-cluster.ts";
import { memoryIo } from "../setup/memory-io.ts";
import { tokenOf, writeKubeconfig } from "../setup/service-accounts.ts";
import type { RbacRule } from "../setup/until-allowed.ts";

/** `ramet key` on a real API server with the admission policies. */
const namespace = "team";
let cluster: TenantCluster;
let home: string;

beforeAll(async () => {
  cluster = await openTenantCluster();
  home = await mkdtemp(join(tmpdir(), "ramet-key-"));
  await cluster.namespace(namespace);
  await cluster.installPolicies();
  const clusterRoles = {
    group: "rbac.authorization.k8s.io",
    version: "v1",
    plural: "clusterroles",
    kind: "ClusterRole",
  };
  await cluster.client.resource({ ...clusterRoles, namespaced: false }).apply(clientRole(), { fieldManager: "test" });
  await makeAccount("agents");
});
afterAll(async () => {
  await rm(home, { recursive: true, force: true });
  await cluster.close();
});

async function makeAccount(name: string): Promise<void> {
  const account = { apiVersion: "v1", kind: "ServiceAccount", metadata: { name, namespace } };
  await cluster.client.resource(coreResources.serviceAccounts).create(account);
}

interface Settings {
  clock?: Clock;
  kubeconfig?: string;
}

async function ramet(args: readonly string[], { clock, kubeconfig = cluster.kubeconfigPath }: Settings = {}) {
  const io = memoryIo({ environment: { HOME: home, KUBECONFIG: kubeconfig }, ...(clock && { clock }) });
  const exitCode = await runProgram(io, [...args, "-n", namespace]);
  return { exitCode, stdout: io.written("stdout"), stderr: io.written("stderr") };
}

const key = (...args: string[]) => ramet(["key", ...args]);
const later = (milliseconds: number): Clock => ({
  ...systemClock,
  now: () => new Date(Date.now() + milliseconds),
});

function stored(name: string): Promise<ApiKey> {
  const keys = cluster.client.of(apiKeyKind);
  return keys.get({ namespace, name });
}

/** Whether the stored key accepts this text, as a server decides it. */
async function accepts(name: string, text: string, now = new Date()): Promise<boolean> {
  const at = { namespace, name };
  const { id, digits = "" } = readApiKey(text.trim()) ?? {};
  return id === apiKeyId(at) && acceptsDigest((await stored(name)).spec, apiKeyDigest(at, digits), now);
}

describe("create", () => {
  it("prints only the key to stdout, and stores only its digest", async () => {
    const { exitCode, stdout, stderr } = await key("create", "ci", "--service-account", "agents");
    expect(stderr).toBe(
      "The key ci acts as the service account agents in namespace team. Keep it: it cannot be shown again.\n",
    );
    expect([exitCode, stdout]).toEqual([0, expect.stringMatching(/^e2b_[0-9a-f]{48}\n$/)]);
    expect(await accepts("ci", stdout)).toBe(true);
    const object = JSON.stringify(await cluster.client.resource(refOf(apiKeyKind)).get({ namespace, name: "ci" }));
    expect(object).not.toContain(stdout.trim().slice(-32));
  });

  it("prints keys in the format of each SDK, and as JSON", async () => {
    const plain = await key("create", "plain", "--service-account", "agents", "--format", "plain");
    expect(plain.stdout).toMatch(/^[0-9a-f]{48}\n$/);
    const { stdout } = await key("create", "s0", "--service-account", "agents", "--format", "sandbox0", "-o", "json");
    const shown = JSON.parse(stdout) as { key: string };
    expect(shown).toEqual({
      name: "s0",
      namespace,
      serviceAccountName: "agents",
      key: expect.stringMatching(/^s0_ramet_[0-9a-f]{48}$/) as string,
    });
    expect(await accepts("s0", shown.key)).toBe(true);
  });

  it("stores the limits, and names the flag of an invalid one", async () => {
    const limits = ["--max-sandboxes", "0", "--max-requests-per-second", "50", "--max-snapshot-bytes", "1.5Gi"];
    limits.push("--max-concurrent-requests", "9", "--max-bytes-in-flight", "128Mi");
    await key("create", "small", "--service-account", "agents", ...limits);
    expect((await stored("small")).spec.limits).toEqual({
      sandboxes: 0,
      requestsPerSecond: 50,
      concurrentRequests: 9,
      bytesInFlight: "128Mi",
      snapshotBytes: "1.5Gi",
    });
    const refused = (...flags: string[]) => key("create", "other", "--service-account", "agents", ...flags);
    expect(await refused("--max-snapshot-bytes", "20GB")).toMatchObject({
      exitCode: 2,
      stdout: "",
      stderr: expect.stringContaining('Invalid --max-snapshot-bytes: "20GB": must be a quantity like 20Gi') as string,
    });
    expect((await refused("--max-requests-per-second", "0")).stderr).toContain("Invalid --max-requests-per-second: 0");
    expect((await refused("--max-sandboxes", "many")).exitCode).toBe(2);
  });

  it("leaves an existing key as it is", async () => {
    const first = await key("create", "once", "--service-account", "agents");
    const second = await key("create", "once", "--service-account", "agents");
    expect(second).toMatchObject({ exitCode: 1, stdout: "" });
    expect(second.stderr).toContain(
      "The key once already exists in namespace team\nChoose another name, or give it a new value with: ramet key rotate once",
    );
    expect(await accepts("once", first.stdout)).toBe(true);
  });

  it("refuses an account that does not exist", async () => {
    const { exitCode, stdout, stderr } = await key("create", "typo", "--service-account", "agent");
    expect([exitCode, stdout]).toEqual([3, ""]);
    expect(stderr).toContain("The service account agent does not exist in namespace team");
    expect(stderr).toContain("--create-service-account");
  });

  it("creates the account with the rights of a client, as often as it is asked to", async () => {
    for (const name of ["one", "two"]) {
      const { exitCode, stderr } = await key("create", name, "--service-account", "new", "--create-service-account");
      expect([exitCode, stderr]).toEqual([0, expect.stringContaining("The RoleBinding ramet-client-new gives it")]);
    }
    const token = await tokenOf(cluster.client, { namespace, name: "new" });
    const path = join(home, "new.kubeconfig");
    await writeKubeconfig(path, { like: cluster.kubeconfigPath, user: { token } });
    await expect
      .poll(async () => (await ramet(["sandbox", "ls"], { kubeconfig: path })).stderr, { timeout: 20_000 })
      .toContain("No sandbox in namespace team.");
    expect((await ramet(["key", "ls"], { kubeconfig: path })).stderr).toContain('cannot list resource "apikeys"');
  });

  it("is refused to users who cannot request tokens of the account", async () => {
    const rules: RbacRule[] = [{ apiGroups: ["ramet.dev"], resources: ["apikeys"], verbs: ["create"] }];
    const user = `system:serviceaccount:${namespace}:writer`;
    await makeAccount("writer");
    await cluster.grant(user, namespace, rules);
    const path = join(home, "writer.kubeconfig");
    const token = await tokenOf(cluster.client, { namespace, name: "writer" });
    await writeKubeconfig(path, { like: cluster.kubeconfigPath, user: { token } });
    const attempt = () => ramet(["key", "create", "stolen", "--service-account", "agents"], { kubeconfig: path });
    await untilRefused(
      () => attempt().then(({ stderr }) => Promise.reject(new Error(stderr))),
      /cannot request tokens/,
    );
    expect(await attempt()).toMatchObject({ exitCode: 1, stdout: "" });
  });
});

describe("rotate", () => {
  it("prints a new value, and lets the previous one work until the grace period ends", async () => {
    const first = (await key("create", "rotated", "--service-account", "agents")).stdout;
    const { exitCode, stdout, stderr } = await key("rotate", "rotated", "--grace", "10m");
    expect([exitCode, stdout]).toEqual([0, expect.stringMatching(/^e2b_[0-9a-f]{48}\n$/)]);
    expect(stderr).toContain("The previous value works until ");
    const inMinutes = (minutes: number) => new Date(Date.now() + minutes * 60_000);
    const acceptedAt = async (minutes: number) => [
      await accepts("rotated", first, inMinutes(minutes)),
      await accepts("rotated", stdout, inMinutes(minutes)),
    ];
    expect([await acceptedAt(0), await acceptedAt(9), await acceptedAt(11)]).toEqual([
      [true, true],
      [true, true],
      [false, true],
    ]);
    expect((await key("get", "rotated")).stdout).toMatch(/rotated +agents +Active, previous value until 20\S+Z +/);
  });

  it("ends the previous value now with --grace 0, and drops expired ones", async () => {
    const first = (await key("create", "ended", "--service-account", "agents")).stdout;
    await key("rotate", "ended", "--grace", "1m");
    await ramet(["key", "rotate", "ended", "--grace", "1m"], { clock: later(120_000) });
    expect((await stored("ended")).spec.digests).toHaveLength(2);
    const last = await key("rotate", "ended", "--grace", "0");
    expect(last.stderr).toContain("The previous value no longer works.");
    expect((await stored("ended")).spec.digests).toHaveLength(1);
    expect([await accepts("ended", first), await accepts("ended", last.stdout)]).toEqual([false, true]);
  });

  it("keeps each value that was printed by commands at the same time", async () => {
    await key("create", "busy", "--service-account", "agents");
    const rotated = await Promise.all([key("rotate", "busy"), key("rotate", "busy"), key("rotate", "busy")]);
    expect(rotated.map(({ exitCode }) => exitCode)).toEqual([0, 0, 0]);
    for (const { stdout } of rotated) expect(await accepts("busy", stdout)).toBe(true);
    const refused = await key("rotate", "busy");
    expect(refused).toMatchObject({ exitCode: 1, stdout: "" });
    expect(refused.stderr).toContain("The key has 4 values that have not expired, and at most 4");
  });

  it.each(["-1s", "3651d", "soon"])("rejects the grace period %s as wrong usage", async (grace) => {
    expect(await key("rotate", "ci", "--grace", grace)).toMatchObject({ exitCode: 2, stdout: "" });
  });

  it("sends users who mix up both kinds of keys to the other command", async () => {
    expect((await ramet(["keys", "rotate", "ci"])).stderr).toContain("an API key is rotated by: ramet key rotate");
    expect((await key("rotate", "nothing")).stderr).toContain("The key nothing does not exist in namespace team");
    for (const [own, other] of [
      ["key", "ramet keys"],
      ["keys", "ramet key\n"],
    ] as const) {
      expect((await ramet([own, "--help"])).stdout).toContain(other);
    }
  });
});

describe("ls, get and explain", () => {
  it("show the account, the state and the limits, and never the key", async () => {
    const { stdout } = await key("ls");
    expect(stdout).toMatch(/^NAME +SERVICE ACCOUNT +STATUS +LIMITS +AGE\n/);
    const requests = "requestsPerSecond=50,concurrentRequests=9,bytesInFlight=128Mi";
    expect(stdout).toMatch(new RegExp(`\nsmall +agents +Active +sandboxes=0,${requests},snapshotBytes=1.5Gi +\\d+s\n`));
    const yaml = parse((await key("get", "ci", "-o", "yaml")).stdout) as unknown;
    expect(yaml).toMatchObject({ kind: "ApiKey", spec: { serviceAccountName: "agents" } });
    expect((await ramet(["get", "apikey", "ci", "-o", "name"])).stdout).toBe("ci\n");
    expect((await ramet(["explain", "key/ci"])).stdout).toContain("authorized as the service account agents");
  });

  it("show a key whose values have expired, with what to do", async () => {
    await key("create", "old", "--service-account", "agents");
    const digests = (await stored("old")).spec.digests.map((one) => ({ ...one, expiresAt: "2020-01-01T00:00:00Z" }));
    await cluster.client.resource(refOf(apiKeyKind)).mergePatch({ namespace, name: "old" }, { spec: { digests } });
    expect((await key("get", "old")).stdout).toMatch(/\nold +agents +Expired/);
    const explained = await ramet(["explain", "key/old"]);
    expect(explained.stdout).toContain("All its values have expired");
    expect(explained.stdout).toContain("ramet key rotate old -n team");
  });
});

it("revokes keys with all their values", async () => {
  await key("create", "gone", "--service-account", "agents");
  expect(await key("revoke", "gone")).toMatchObject({ exitCode: 0, stdout: "key gone revoked\n" });
  await expect(stored("gone")).rejects.toMatchObject({ code: "NotFound" });
  expect(await key("revoke", "gone", "once")).toMatchObject({ exitCode: 3, stdout: "" });
  expect(await key("revoke", "gone", "once", "--ignore-not-found")).toMatchObject({ stdout: "key once revoked\n" });
});
