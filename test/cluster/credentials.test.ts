import { once } from "node:events";
import { readdir, readFile } from "node:fs/promises";
import { createServer, type RequestListener, type Server } from "node:http";
import { createServer as createSecureServer } from "node:https";
import type { AddressInfo } from "node:net";
import { networkInterfaces } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, it } from "vitest";
import { coreResources } from "../../src/kube/resource-ref.ts";
import { issueCertificate } from "../../src/local/control-plane/certificate.ts";
import { startDnsStandIn, type DnsStandIn } from "../contract/link/dns-stand-in.ts";
import { counterPort } from "../setup/counter.ts";
import { requestingProgram } from "../setup/requesting-program.ts";
import { startSocksProxy } from "../setup/socks-proxy.ts";
import { type Cluster, openCluster } from "./controllers-cluster.ts";
import { realNode } from "./controllers-real-node.ts";

/** Sandboxes can reach this address of the machine because the runtime's rules name it. */
const address = Object.values(networkInterfaces())
  .flat()
  .find((one) => one?.family === "IPv4" && !one.internal && !one.address.startsWith("169.254."))!.address;
const apiVersion = "agents.kruise.io/v1alpha1";
const credentials = "ramet.dev/credentials";
const domain = "api.example.test";
/** Never in one piece in a program of the sandbox. */
const value = ["s3cr3t", "of", "the", "test", Math.random().toString(36).slice(2)].join("-");
/** In the memory of the sandbox, so that a search of its checkpoint that finds nothing would be noticed. */
const marker = ["in", "memory", Math.random().toString(36).slice(2)].join("-");

let cluster: Cluster;
let dns: DnsStandIn;
const authority = await issueCertificate({ commonName: "test", use: "authority", now: new Date(), validDays: 1 });
const servers: Server[] = [];
/** The header as the servers outside have received it, by path. */
const received: Record<string, string> = {};
let ports: { plain: number; secure: number };

beforeAll(async () => {
  dns = await startDnsStandIn({ [domain]: [address] });
  const answer: RequestListener = (request, response) => {
    received[request.url ?? ""] = request.headers["authorization"] ?? "none";
    response.end("answered");
  };
  const pair = await issueCertificate(
    { commonName: domain, use: "server", hosts: [domain], now: new Date(), validDays: 1 },
    authority,
  );
  const secure = createSecureServer({ cert: pair.certificate, key: pair.key }, answer);
  ports = { plain: await listen(createServer(answer)), secure: await listen(secure) };
  cluster = await openCluster({
    startNode: realNode(),
    egress: { allow: [address] },
    dns: { upstreams: [dns.address] },
  });
  await cluster.namespace("t");
  await setSecret(value);
});
afterAll(async () => {
  await cluster.close();
  dns.close();
  for (const server of servers) server.close();
});

/** The controllers read Secrets each minute, so the last test sees what changes here. */
it("starts sandboxes with Secrets that are then rotated and deleted", async () => {
  for (const name of ["rotated", "deleted"]) {
    await setSecret("first", name);
    const rules = rulesFor(ports.plain).replace("secret/api/", `secret/${name}/`);
    await create("Sandbox", name, { annotations: { [credentials]: rules }, spec: { template: template() } });
    expect(await ask(name, `http://${domain}:${ports.plain}/${name}`)).toBe("200 answered");
    expect(received[`/${name}`]).toBe("Bearer first");
  }
  await setSecret("second", "rotated");
  await cluster.client.resource(coreResources.secrets).delete({ namespace: "t", name: "deleted" });
});

it("adds a header from a Secret to requests of a sandbox that cannot read it", async () => {
  await create("Sandbox", "a", {
    annotations: { [credentials]: rulesFor(ports.plain) },
    spec: { template: template() },
  });
  expect(await ask("a", `http://${domain}:${ports.plain}/plain`)).toBe("200 answered");
  expect(received["/plain"]).toBe(`Bearer ${value}`);
  const { status } = await cluster.sandbox("t/a", (one) => applied(one.status) !== undefined);
  expect(applied(status)).toMatchObject({ status: "True" });
  expect(await ask("a", `http://${address}:${ports.plain}/address`)).toBe("200 answered");
  expect(received["/address"]).toBe("none");

  await create("Checkpoint", "a-1", { spec: { podName: "a" } });
  await cluster.checkpoint("t/a-1", (one) => one.status?.phase === "Succeeded");
  const data = await Promise.all((await filesIn(cluster.storePath)).map((path) => readFile(path)));
  expect(data.some((bytes) => bytes.includes(marker))).toBe(true);
  expect(data.some((bytes) => bytes.includes(value))).toBe(false);
  const { sandboxes, pods, checkpoints, templates } = cluster.seen;
  const objects = [sandboxes, pods, checkpoints, templates].flatMap(({ store }) => store.list() as object[]);
  expect(JSON.stringify(objects)).not.toContain(value);
  expect(JSON.stringify(objects)).not.toContain(Buffer.from(value).toString("base64"));
});

it("gives a clone the credentials of its own annotation only", async () => {
  const { status } = await cluster.checkpoint("t/a-1", (one) => one.status?.phase === "Succeeded");
  const from = { "ramet.dev/restore-from": status?.checkpointId ?? "" };
  await create("Sandbox", "without", { annotations: from, spec: { template: template() } });
  expect(await ask("without", `http://${domain}:${ports.plain}/without`)).toBe("200 answered");
  expect(received["/without"]).toBe("none");
  await create("Sandbox", "with", {
    annotations: { ...from, [credentials]: rulesFor(ports.plain) },
    spec: { template: template() },
  });
  expect(await ask("with", `http://${domain}:${ports.plain}/with`)).toBe("200 answered");
  expect(received["/with"]).toBe(`Bearer ${value}`);
});

it("adds headers to TLS requests of programs that trust the CA of the sandbox, also in a clone", async () => {
  const rules = rulesFor(ports.secure, { tls: true, trustedCertificates: authority.certificate });
  await create("Sandbox", "tls", { annotations: { [credentials]: rules }, spec: { template: template() } });
  expect(await ask("tls", `https://${domain}:${ports.secure}/tls`)).toBe("200 answered");
  expect(received["/tls"]).toBe(`Bearer ${value}`);
  // Loaded once by the program that runs in the clone: it trusts the CA of its source.
  expect(await ask("tls", `https://${domain}:${ports.secure}/kept?context=kept`)).toBe("200 answered");
  await create("Checkpoint", "tls-1", { spec: { podName: "tls" } });
  const { status } = await cluster.checkpoint("t/tls-1", (one) => one.status?.phase === "Succeeded");
  await create("Sandbox", "tls-clone", {
    annotations: { "ramet.dev/restore-from": status?.checkpointId ?? "", [credentials]: rules },
    spec: { template: template() },
  });
  expect(await ask("tls-clone", `https://${domain}:${ports.secure}/cloned?context=kept`)).toBe("200 answered");
  expect(received["/cloned?context=kept"]).toBe(`Bearer ${value}`);
});

it("lets who sets a proxy for a sandbox not read the values of its template", async () => {
  const proxy = await startSocksProxy(address, { username: "u", password: "p" });
  await create("SandboxTemplate", "shared", {
    spec: { template: { metadata: { annotations: { [credentials]: rulesFor(ports.plain) } }, ...template() } },
  });
  const egressProxy = { address: proxy.address, username: "u", password: "p" };
  await create("Sandbox", "proxied", {
    annotations: { [credentials]: JSON.stringify({ egressProxy }) },
    spec: { templateRef: { name: "shared" } },
  });
  const { status } = await cluster.sandbox("t/proxied", (one) =>
    JSON.stringify(one.status ?? {}).includes("egressProxy"),
  );
  expect(JSON.stringify(status)).toContain("would let others read the values in rules of the template");
  expect(status?.phase).not.toBe("Running");
  expect(proxy.connected).toEqual([]);
  await create("Sandbox", "delegated", { spec: { templateRef: { name: "shared" } } });
  expect(await ask("delegated", `http://${domain}:${ports.plain}/delegated`)).toBe("200 answered");
  expect(received["/delegated"]).toBe(`Bearer ${value}`);
  proxy.close();
});

it("refuses values that no header can have, and keeps the previous ones", async () => {
  await cluster.client.resource(coreResources.secrets).apply(
    {
      apiVersion: "v1",
      kind: "Secret",
      metadata: { namespace: "t", name: "large" },
      stringData: { token: "x".repeat(900_000) },
    },
    { fieldManager: "test" },
  );
  const set = (text: string) =>
    cluster.seen.sandboxes.resource.mergePatch(
      { namespace: "t", name: "a" },
      { metadata: { annotations: { [credentials]: text } } },
    );
  await set(rulesFor(ports.plain).replace("secret/api/", "secret/large/"));
  const { status } = await cluster.sandbox("t/a", (one) => applied(one.status)?.reason === "InvalidArgument");
  expect(applied(status)?.message).toContain("the key token of the Secret large is larger than 16384 bytes");
  expect(await ask("a", `http://${domain}:${ports.plain}/large`)).toBe("200 answered");
  expect(received["/large"]).toBe(`Bearer ${value}`);
});

it("names what cannot be resolved, and applies a change of the annotation to a running sandbox", async () => {
  const set = (text: string | null) =>
    cluster.seen.sandboxes.resource.mergePatch(
      { namespace: "t", name: "a" },
      { metadata: { annotations: { [credentials]: text } } },
    );
  const missing = rulesFor(ports.plain).replace("secret/api/", "secret/none/");
  await set(missing);
  const { status } = await cluster.sandbox("t/a", (one) => applied(one.status)?.reason === "NotFound");
  expect(applied(status)).toMatchObject({
    reason: "NotFound",
    message: expect.stringContaining("the Secret none or its key token does not exist") as string,
  });
  await set('{"rules": {"10.0.0.1": {"a": "b"}}}');
  const invalid = await cluster.sandbox("t/a", (one) => applied(one.status)?.reason === "InvalidArgument");
  expect(applied(invalid.status)?.message).toContain("is an address, and only a name can have credentials");
  await set(null);
  await cluster.sandbox("t/a", (one) => applied(one.status) === undefined);
  expect(await ask("a", `http://${domain}:${ports.plain}/removed`)).toBe("200 answered");
  expect(received["/removed"]).toBe("none");
});

it("uses the new value of a rotated Secret and no value of a deleted one, without a restart", async () => {
  const asked = async (name: string) => {
    await ask(name, `http://${domain}:${ports.plain}/${name}`);
    return received[`/${name}`];
  };
  const aMinute = { timeout: 120_000, interval: 500 };
  await expect.poll(() => asked("rotated"), aMinute).toBe("Bearer second");
  await expect.poll(() => asked("deleted"), aMinute).toBe("none");
  const { status } = await cluster.sandbox("t/deleted", (one) => applied(one.status)?.status === "False");
  expect(applied(status)).toMatchObject({ reason: "NotFound" });
});

/** Keeps a marker in memory, too. */
const script = `marker = "-".join(${JSON.stringify(marker.split("-"))})\n${requestingProgram}`;

function template() {
  const command = ["python3", "-c", script];
  return {
    spec: {
      terminationGracePeriodSeconds: 1,
      containers: [{ name: "main", image: "python", command, ports: [{ containerPort: counterPort }] }],
    },
  };
}

function rulesFor(port: number, more: object = {}): string {
  return JSON.stringify({ rules: { [`${domain}:${port}`]: { Authorization: "Bearer $(secret/api/token)" } }, ...more });
}

async function setSecret(text: string, name = "api"): Promise<void> {
  await cluster.client.resource(coreResources.secrets).apply(
    {
      apiVersion: "v1",
      kind: "Secret",
      metadata: { namespace: "t", name },
      stringData: { token: `${text}\n` },
    },
    { fieldManager: "test" },
  );
}

async function create(
  kind: string,
  name: string,
  { annotations, ...rest }: { annotations?: Record<string, string>; spec: object },
) {
  await cluster.create({
    apiVersion,
    kind,
    metadata: { name, namespace: "t", ...(annotations && { annotations }) },
    ...rest,
  });
}

/** Lets the program in a sandbox of namespace `t` request a URL. */
async function ask(name: string, url: string): Promise<string> {
  const { status } = await cluster.sandbox(`t/${name}`, (sandbox) => sandbox.status?.phase === "Running");
  for (;;) {
    const at = `http://${status?.sandboxIp ?? ""}:${counterPort}/${encodeURIComponent(url)}`;
    const answer = await fetch(at).catch(() => undefined);
    if (answer?.ok === true) return answer.text();
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
}

function applied(
  status: { conditions?: { type: string; status: string; reason: string; message: string }[] | undefined } | undefined,
) {
  return status?.conditions?.find(({ type }) => type === "CredentialsApplied");
}

async function listen(server: Server): Promise<number> {
  servers.push(server);
  server.listen(0, address);
  await once(server, "listening");
  return (server.address() as AddressInfo).port;
}

async function filesIn(directory: string): Promise<string[]> {
  const entries = await readdir(directory, { recursive: true, withFileTypes: true });
  return entries.filter((entry) => entry.isFile()).map((entry) => join(entry.parentPath, entry.name));
}
