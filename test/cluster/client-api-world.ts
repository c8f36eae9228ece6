import { randomBytes } from "node:crypto";
import { newApiKey } from "../../src/api/keys/api-key-text.ts";
import { apiKeyKind } from "../../src/api/kinds/api-key.ts";
import { sandboxTemplateKind } from "../../src/api/kinds/sandbox-template.ts";
import { group, rametApiVersion } from "../../src/api/schema/kind.ts";
import type { Log } from "../../src/base/log.ts";
import { clientRights } from "../../src/install/http-server-rights.ts";
import { ruleOf } from "../../src/install/rights.ts";
import { clientApiMetrics, type ClientApiMetrics } from "../../src/client-api/metrics.ts";
import { runClientApi } from "../../src/client-api/run.ts";
import { KubeClient } from "../../src/kube/kube-client.ts";
import { coreResources, refOf, type ResourceRef } from "../../src/kube/resource-ref.ts";
import { type RbacRule, untilAllowed, userOf } from "../setup/until-allowed.ts";
import { type Cluster, openCluster } from "./controllers-cluster.ts";
import { StandInNode } from "./controllers-stand-in-node.ts";

export interface Answer {
  status: number;
  headers: Headers;
  text: string;
  json: unknown;
}

/** The client API in this process, with real controllers and a real API server. The cells are stand-ins. */
export class ClientApiWorld {
  readonly cluster: Cluster;
  readonly node: StandInNode;
  readonly metrics: ClientApiMetrics;
  /** The log of the server, as JSON. */
  readonly lines: string[] = [];
  readonly #end = new AbortController();
  #url = "";
  #running: Promise<void> = Promise.resolve();

  private constructor(cluster: Cluster, node: StandInNode) {
    this.cluster = cluster;
    this.node = node;
    this.metrics = clientApiMetrics();
  }

  static async open(): Promise<ClientApiWorld> {
    const node = new StandInNode();
    const world = new ClientApiWorld(await openCluster({ startNode: node.start }), node);
    await world.#start();
    return world;
  }

  async #start(): Promise<void> {
    const client = new KubeClient(this.cluster.connection, { onRequest: this.metrics.onRequest });
    await new Promise<void>((resolve, reject) => {
      this.#running = runClientApi({
        client,
        port: 0,
        address: "127.0.0.1",
        metrics: this.metrics,
        log: recordingLog(this.lines),
        onReady: (port) => {
          this.#url = `http://127.0.0.1:${port}`;
          resolve();
        },
        signal: this.#end.signal,
      }).finally(() => client.close());
      this.#running.catch(reject);
    });
  }

  get url(): string {
    return this.#url;
  }

  /** Stops the server, as SIGTERM does. Resolves when it has answered the requests in progress. */
  async stopServer(): Promise<void> {
    this.#end.abort();
    await this.#running;
  }

  async close(): Promise<void> {
    await this.stopServer();
    await this.cluster.close();
  }

  /** Creates a namespace with a template. */
  async namespace(name: string): Promise<void> {
    await this.cluster.namespace(name);
    await createTemplate(this.cluster.client, name);
  }

  /** Creates a key whose account has these rights. @returns the text of the key */
  key(namespace: string, name: string, rules: readonly RbacRule[], limits?: object): Promise<string> {
    return createKey(this.cluster.client, { namespace, name, rules, limits });
  }

  /** Sends a request with a key. */
  call(key: string | undefined, method: string, path: string, ...rest: [unknown?, object?]): Promise<Answer> {
    return callClientApi(this.#url, key, [method, path, ...rest]);
  }
}

/** @param request the method, the path, the body and further headers */
export async function callClientApi(
  url: string,
  key: string | undefined,
  [method, path, body, headers]: [string, string, unknown?, (object | undefined)?],
): Promise<Answer> {
  const response = await fetch(url + path, {
    method,
    headers: {
      ...(key !== undefined && { "x-api-key": key }),
      ...(body !== undefined && { "content-type": "application/json" }),
      ...headers,
    },
    ...(body !== undefined && { body: JSON.stringify(body) }),
  });
  const text = await response.text();
  const isJson = response.headers.get("content-type")?.startsWith("application/json") === true;
  return { status: response.status, headers: response.headers, text, json: isJson ? JSON.parse(text) : undefined };
}

export async function createTemplate(client: KubeClient, namespace: string): Promise<void> {
  await client.resource(refOf(sandboxTemplateKind)).create({
    apiVersion: `${group}/v1alpha1`,
    kind: "SandboxTemplate",
    metadata: { namespace, name: "base" },
    spec: { template: { spec: { containers: [{ name: "main", image: "python" }] } } },
  });
}

/** A world with a namespace, and a key of it that has all rights. */
export async function openWithKey(namespace: string): Promise<{ world: ClientApiWorld; key: string }> {
  const world = await ClientApiWorld.open();
  await world.namespace(namespace);
  return { world, key: await world.key(namespace, "agent", allRights) };
}

interface NewKey {
  namespace: string;
  name: string;
  rules: readonly RbacRule[];
  limits?: object | undefined;
}

/** @returns the text of the key */
export async function createKey(client: KubeClient, { namespace, name, rules, limits }: NewKey): Promise<string> {
  const metadata = { namespace, name };
  const apiVersion = "rbac.authorization.k8s.io/v1";
  await client.resource(coreResources.serviceAccounts).create({ apiVersion: "v1", kind: "ServiceAccount", metadata });
  await client.resource(rbac("roles", "Role")).create({ apiVersion, kind: "Role", metadata, rules });
  await client.resource(rbac("rolebindings", "RoleBinding")).create({
    apiVersion,
    kind: "RoleBinding",
    metadata,
    roleRef: { apiGroup: "rbac.authorization.k8s.io", kind: "Role", name },
    subjects: [{ kind: "ServiceAccount", name, namespace }],
  });
  await untilAllowed(client, { user: userOf(metadata), namespace, rules });
  const { text, digest } = newApiKey({ ...metadata, format: "e2b", random: randomBytes });
  const keys = client.of(apiKeyKind);
  await keys.create({
    apiVersion: rametApiVersion,
    kind: "ApiKey",
    metadata,
    spec: { serviceAccountName: name, digests: [{ digest }], ...(limits && { limits }) },
  });
  return text;
}

/** All rights of clients. */
export const allRights = clientRights.map(ruleOf) as RbacRule[];

function recordingLog(lines: string[]): Log {
  const write = (fields: object, message: string): void => {
    const shown = (_: string, value: unknown): unknown => (value instanceof Error ? String(value.stack) : value);
    lines.push(JSON.stringify({ ...fields, message }, shown));
  };
  const log = { debug: write, info: write, warn: write, error: write };
  // The methods that fastify expects of a logger in addition.
  return Object.assign(log, { trace: write, fatal: write, child: () => log, level: "debug" });
}

function rbac(plural: string, kind: string): ResourceRef {
  return { group: "rbac.authorization.k8s.io", version: "v1", plural, kind, namespaced: true };
}
