import { randomBytes } from "node:crypto";
import { once } from "node:events";
import { createServer, type RequestListener } from "node:http";
import { createServer as createSecureServer } from "node:https";
import type { AddressInfo, Server } from "node:net";
import { networkInterfaces } from "node:os";
import { Sandbox, Secret, SecretNotFoundError } from "e2b";
import { pino } from "pino";
import { afterAll, beforeAll, expect, it } from "vitest";
import { newApiKey } from "../../src/api/keys/api-key-text.ts";
import { apiKeyKind } from "../../src/api/kinds/api-key.ts";
import { rametApiVersion } from "../../src/api/schema/kind.ts";
import { runClientApi } from "../../src/client-api/run.ts";
import { clientRole } from "../../src/install/http-server-rights.ts";
import { coreResources, refOf, type ResourceRef } from "../../src/kube/resource-ref.ts";
import { issueCertificate } from "../../src/local/control-plane/certificate.ts";
import { runPython } from "../clients/python-client.ts";
import { startDnsStandIn, type DnsStandIn } from "../contract/link/dns-stand-in.ts";
import { counterPort } from "../setup/counter.ts";
import { requestingProgram } from "../setup/requesting-program.ts";
import { startSocksProxy, type SocksProxy } from "../setup/socks-proxy.ts";
import { type Cluster, openCluster } from "./controllers-cluster.ts";
import { realNode } from "./controllers-real-node.ts";

/** E2B's SDK, unmodified, with the client API in this process, real controllers and real sandboxes. */
const address = Object.values(networkInterfaces())
  .flat()
  .find((one) => one?.family === "IPv4" && !one.internal && !one.address.startsWith("169.254."))!.address;
const domain = "api.example.test";
const by = { fieldManager: "test", force: true };

let cluster: Cluster;
let dns: DnsStandIn;
let proxy: SocksProxy;
let ports: { plain: number; secure: number };
let options: { apiKey: string; apiUrl: string };
const ending = new AbortController();
let ended: Promise<void>;
const servers: Server[] = [];
const received: Record<string, string> = {};

beforeAll(async () => {
  dns = await startDnsStandIn({ [domain]: [address] });
  proxy = await startSocksProxy(address, { username: "user", password: "p4ssw0rd" });
  const authority = await issueCertificate({ commonName: "test", use: "authority", now: new Date(), validDays: 1 });
  const request = { commonName: domain, use: "server" as const, hosts: [domain], now: new Date(), validDays: 1 };
  const { certificate: cert, key } = await issueCertificate(request, authority);
  const answer: RequestListener = (given, response) => {
    received[given.url ?? ""] = String(given.headers["x-key"] ?? "none");
    response.end("answered");
  };
  ports = {
    plain: await listen(createServer(answer)),
    secure: await listen(createSecureServer({ cert, key }, answer)),
  };
  cluster = await openCluster({
    startNode: realNode(),
    egress: { allow: [address] },
    dns: { upstreams: [dns.address] },
  });
  await cluster.namespace("t");
  const apiUrl = await serve();
  options = { apiKey: await createKey(), apiUrl };
  await createTemplate("python", { trustedCertificates: authority.certificate });
  const ofPlatform = { [`${domain}:${ports.plain}`]: { "X-Key": "$(secret/platform/token)" } };
  await createTemplate("with-rules", { rules: ofPlatform });
  await cluster.client.resource(coreResources.secrets).apply(
    {
      apiVersion: "v1",
      kind: "Secret",
      metadata: { namespace: "t", name: "platform" },
      stringData: { token: "pl4tform" },
    },
    by,
  );
});
afterAll(async () => {
  ending.abort();
  await ended;
  await cluster.close();
  dns.close();
  proxy.close();
  for (const server of servers) server.close();
});

async function createTemplate(name: string, credentials: object): Promise<void> {
  await cluster.create({
    apiVersion: "agents.kruise.io/v1alpha1",
    kind: "SandboxTemplate",
    metadata: { name, namespace: "t" },
    spec: {
      template: {
        metadata: { annotations: { "ramet.dev/credentials": JSON.stringify(credentials) } },
        spec: {
          terminationGracePeriodSeconds: 1,
          containers: [
            {
              name: "main",
              image: "python",
              command: ["python3", "-c", requestingProgram],
              ports: [{ containerPort: counterPort }],
            },
          ],
        },
      },
    },
  });
}

const secureUrl = (path: string) => `https://${domain}:${ports.secure}${path}`;
const rulesFor = (value: string) => ({
  [`${domain}:${ports.secure}`]: [{ transform: { headers: { "X-Key": value } } }],
});

it("stores secrets, and never returns a value", async () => {
  const made = await Secret.create("OpenAI-key", "s3cr3t-1", { ...options, metadata: { team: "a" } });
  expect(made).toMatchObject({ name: "openai-key", version: 1, metadata: { team: "a" } });
  expect(await Secret.getInfo(made.secretId, options)).toEqual(made);
  expect(await Secret.update("openai-key", "s3cr3t-2", options)).toMatchObject({ version: 2, metadata: { team: "a" } });
  await expect(Secret.create("openai-key", "other", options)).rejects.toThrow("exists");
  await Secret.create("second", "s3cr3t-3", options);
  const listed = Secret.list({ ...options, limit: 1 });
  const names: string[] = [];
  while (listed.hasNext) names.push(...(await listed.nextItems()).map(({ name }) => name));
  expect(names.toSorted()).toEqual(["openai-key", "second"]);
  expect(await Secret.destroy("second", options)).toBe(true);
  expect(await Secret.destroy("second", options)).toBe(false);
  await expect(Secret.getInfo("second", options)).rejects.toThrow(SecretNotFoundError);
  const stored = await cluster.client
    .resource({
      group: "ramet.dev",
      version: "v1alpha1",
      plural: "clientsecrets",
      kind: "ClientSecret",
      namespaced: true,
    })
    .list();
  expect(JSON.stringify(stored)).not.toContain("s3cr3t");
});

it("adds literal headers, secrets and tokens to HTTPS requests of a sandbox", async () => {
  const sandbox = await Sandbox.create("python", {
    ...options,
    iam: { tokens: { sts: Secret.iamToken({ audience: "sts.example.org", tokenType: "JWT-SVID" }) } },
    network: {
      denyOut: ["0.0.0.0/0"],
      allowOut: [domain],
      rules: {
        [`${domain}:${ports.secure}`]: [
          {
            transform: ({ iam }) => ({
              headers: { "X-Key": `l1t3ral ${Secret.fill("openai-key")} ${iam.tokens["sts"] ?? ""}` },
            }),
          },
        ],
      },
    },
  });
  const object = await objectOf(sandbox);
  expect(await ask(object, secureUrl("/first"))).toBe("200 answered");
  const [literal, secret, token = ""] = (received["/first"] ?? "").split(" ");
  expect([literal, secret]).toEqual(["l1t3ral", "s3cr3t-2"]);
  const claims = JSON.parse(Buffer.from(token.split(".")[1] ?? "", "base64url").toString()) as Record<string, unknown>;
  expect(claims).toMatchObject({ sub: "system:serviceaccount:t:agent", aud: ["sts.example.org"] });
  expect(JSON.stringify(cluster.seen.sandboxes.store.list())).not.toMatch(/l1t3ral|s3cr3t/);

  await sandbox.updateNetwork({ rules: rulesFor("ch4nged") });
  expect(await heard(object, secureUrl("/changed"))).toBe("ch4nged");
  await sandbox.updateNetwork({ denyOut: [] });
  expect(await heard(object, `http://${domain}:${ports.plain}/cleared`)).toBe("none");
  await sandbox.updateNetwork({ denyOut: ["0.0.0.0/0"] });
  expect(await heard(object, `http://${domain}:${ports.plain}/denied`)).toBeUndefined();
  await sandbox.kill();
});

it.each(["credentials.py", "async_credentials.py"])(
  "adds secrets to requests of a sandbox of the SDK for Python: %s",
  async (file) => {
    const environment = { E2B_API_KEY: options.apiKey, E2B_API_URL: options.apiUrl, E2B_SANDBOX_URL: options.apiUrl };
    const target = `${domain}:${ports.secure}`;
    const id = await runPython(file, { args: ["create", target], environment });
    const object = await objectOf({ sandboxId: id });
    expect(await heard(object, secureUrl(`/${file}/created`))).toBe("l1t3ral pyth0n-2");
    expect(JSON.stringify(cluster.seen.sandboxes.store.list())).not.toMatch(/l1t3ral|pyth0n/);
    await runPython(file, { args: ["update", id, target], environment });
    expect(await heard(object, secureUrl(`/${file}/updated`))).toBe("ch4nged");
  },
);

it("denies the requests of a sandbox that was ready before its client forbade them", async () => {
  const spec = { replicas: 1, templateRef: { name: "python" } };
  await cluster.create({
    apiVersion: "agents.kruise.io/v1alpha1",
    kind: "SandboxSet",
    metadata: { name: "stocked", namespace: "t" },
    spec,
  });
  const stocked = () => cluster.seen.sandboxes.store.list().find(({ metadata }) => /^stocked-/.test(metadata.name));
  await expect.poll(() => stocked()?.status?.phase, { timeout: 60_000 }).toBe("Running");
  const name = stocked()?.metadata.name;
  const sandbox = await Sandbox.create("stocked", { ...options, allowInternetAccess: false });
  const object = await objectOf(sandbox);
  expect(object).toBe(name);
  expect(await heard(object, `http://${domain}:${ports.plain}/stocked`)).toBeUndefined();
  await sandbox.kill();
});

it("sends everything through a SOCKS5 proxy whose password the sandbox does not have", async () => {
  const egressProxy = { address: proxy.address, username: "user", password: "p4ssw0rd" };
  const sandbox = await Sandbox.create("python", { ...options, network: { egressProxy } });
  const object = await objectOf(sandbox);
  expect(await ask(object, `http://${domain}:${ports.plain}/proxied`)).toBe("200 answered");
  expect(proxy.connected).toContain(`${address}:${ports.plain}`);
  expect(JSON.stringify(cluster.seen.sandboxes.store.list())).not.toContain("p4ssw0rd");
  await sandbox.kill();
});

it("refuses a client's proxy for the rules of a template, and says why", async () => {
  const egressProxy = { address: proxy.address, username: "user", password: "p4ssw0rd" };
  const attempt = Sandbox.create("with-rules", { ...options, network: { egressProxy } });
  await expect(attempt).rejects.toThrow("would let others read the values in rules of the template");
  const sandbox = await Sandbox.create("with-rules", options);
  const object = await objectOf(sandbox);
  expect(await ask(object, `http://${domain}:${ports.plain}/platform`)).toBe("200 answered");
  expect(received["/platform"]).toBe("pl4tform");
  const before = proxy.connected.length;
  await expect(sandbox.updateNetwork({ egressProxy })).rejects.toThrow("would let others read the values");
  expect(await ask(object, `http://${domain}:${ports.plain}/unproxied`)).toBe("200 answered");
  expect(proxy.connected).toHaveLength(before);
  await sandbox.kill();
});

it.each([
  [{ rules: { "10.0.0.1": [] } }, "only a name"],
  [{ rules: { "*": [] } }, "is not a name"],
  [{ rules: rulesOfToken() }, "uses the token none"],
  [{ rules: { "a.test": [{ transform: { headers: { "a b": "s3cr3t" } } }] } }, "not the name of a header"],
])("refuses %j, without its values", async (network, why) => {
  const answer = await fetch(`${options.apiUrl}/sandboxes`, {
    method: "POST",
    headers: { "x-api-key": options.apiKey, "content-type": "application/json" },
    body: JSON.stringify({ templateID: "python", network }),
  });
  const text = await answer.text();
  expect(answer.status).toBe(400);
  expect(text).toContain(why);
  expect(text).not.toContain("s3cr3t");
});

function rulesOfToken() {
  return { "a.test": [{ transform: { headers: { a: "${e2b.identity.tokens.none}" } } }] };
}

async function serve(): Promise<string> {
  const { promise, resolve } = Promise.withResolvers<number>();
  ended = runClientApi({
    client: cluster.client,
    port: 0,
    address: "127.0.0.1",
    onReady: resolve,
    log: pino({ level: "silent" }),
    signal: ending.signal,
  });
  return `http://127.0.0.1:${await promise}`;
}

const rbac = (plural: string, kind: string): ResourceRef => ({
  group: "rbac.authorization.k8s.io",
  version: "v1",
  plural,
  kind,
  namespaced: true,
});

/** A key of the service account `agent`, with the rights of ramet-client. */
async function createKey(): Promise<string> {
  const metadata = { namespace: "t", name: "agent" };
  const { rules } = clientRole() as unknown as { rules: object[] };
  const apiVersion = "rbac.authorization.k8s.io/v1";
  const role = { apiVersion, kind: "Role", metadata, rules };
  await cluster.client
    .resource(coreResources.serviceAccounts)
    .apply({ apiVersion: "v1", kind: "ServiceAccount", metadata }, by);
  await cluster.client.resource(rbac("roles", "Role")).apply(role, by);
  await bind("agent", [{ kind: "ServiceAccount", ...metadata }]);
  const { text, digest } = newApiKey({ ...metadata, format: "e2b", random: randomBytes });
  const spec = { serviceAccountName: "agent", digests: [{ digest }] };
  await cluster.client
    .resource(refOf(apiKeyKind))
    .apply({ apiVersion: rametApiVersion, kind: "ApiKey", metadata, spec }, by);
  return text;
}

async function bind(name: string, subjects: object[]): Promise<void> {
  await cluster.client.resource(rbac("rolebindings", "RoleBinding")).apply(
    {
      apiVersion: "rbac.authorization.k8s.io/v1",
      kind: "RoleBinding",
      metadata: { namespace: "t", name },
      roleRef: { apiGroup: "rbac.authorization.k8s.io", kind: "Role", name },
      subjects,
    },
    by,
  );
}

async function objectOf(sandbox: Pick<Sandbox, "sandboxId">): Promise<string> {
  const uid = (name: string) => cluster.seen.sandboxes.store.get(`t/${name}`)?.metadata.uid.replaceAll("-", "");
  const found = () =>
    cluster.seen.sandboxes.store
      .list()
      .find(({ metadata }) => sandbox.sandboxId.replaceAll("-", "").includes(uid(metadata.name) ?? "-"))?.metadata.name;
  await expect.poll(found).toBeDefined();
  return found() ?? "";
}

async function heard(name: string, url: string): Promise<string | undefined> {
  await ask(name, url);
  return received[new URL(url).pathname];
}

/** Lets the program in a sandbox request a URL. */
async function ask(name: string, url: string): Promise<string> {
  const { status } = await cluster.sandbox(`t/${name}`, (sandbox) => sandbox.status?.phase === "Running");
  for (;;) {
    const at = `http://${status?.sandboxIp ?? ""}:${counterPort}/${encodeURIComponent(url)}`;
    const answer = await fetch(at).catch(() => undefined);
    if (answer?.ok === true) return answer.text();
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
}

async function listen(server: Server): Promise<number> {
  servers.push(server);
  server.listen(0, address);
  await once(server, "listening");
  return (server.address() as AddressInfo).port;
}
