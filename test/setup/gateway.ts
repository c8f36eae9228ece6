import { request, type Dispatcher } from "undici";
import { runGateway, type RunGatewayOptions } from "../../src/gateway/run.ts";
import type { KubeClient } from "../../src/kube/kube-client.ts";
import { serviceAccounts, tokenOf } from "./service-accounts.ts";
import { untilAllowed, userOf } from "./until-allowed.ts";

/** A gateway in this process, equal to that of `ramet gateway`. */
export interface RunningGateway {
  port: number;
  /** Starts the shutdown. `ended` resolves after it. */
  end: () => void;
  ended: Promise<void>;
}

export async function startGateway(
  client: KubeClient,
  options: Partial<RunGatewayOptions> = {},
): Promise<RunningGateway> {
  const abort = new AbortController();
  const opened = Promise.withResolvers<number>();
  const own = { client, port: 0, address: "127.0.0.1", signal: abort.signal, onReady: opened.resolve };
  const ended = runGateway({ ...options, ...own });
  const port = await Promise.race([
    opened.promise,
    ended.then(() => Promise.reject(new Error("the gateway has stopped"))),
  ]);
  return {
    port,
    end: () => {
      abort.abort();
    },
    ended,
  };
}

export interface Answer {
  status: number;
  headers: Dispatcher.ResponseData["headers"];
  text: string;
}

export interface Question {
  token?: string;
  path?: string;
  method?: string;
  body?: string | Buffer;
  headers?: Record<string, string>;
}

/** Sends a request to a sandbox port with the headers of E2B's SDKs. */
export async function ask(
  { address = "127.0.0.1", port }: { address?: string; port: number },
  { id, port: inner }: { id: string; port: number },
  { token, path = "/", method = "GET", body, headers = {} }: Question = {},
): Promise<Answer> {
  const own = token === undefined ? {} : { "ramet-access-token": token };
  const answer = await request(`http://${address}:${port}${path}`, {
    method,
    headers: { "e2b-sandbox-id": id, "e2b-sandbox-port": String(inner), ...own, ...headers },
    ...(body !== undefined && { body }),
  });
  return { status: answer.statusCode, headers: answer.headers, text: await answer.body.text() };
}

/** Creates a service account. @returns a token of it for `audience` */
export async function accountToken(
  client: KubeClient,
  { namespace, name }: { namespace: string; name: string },
  audience = "ramet-gateway",
): Promise<string> {
  const metadata = { namespace, name };
  const manifest = { apiVersion: "v1", kind: "ServiceAccount", metadata };
  await client.resource(serviceAccounts).apply(manifest, { fieldManager: "test" });
  return tokenOf(client, metadata, audience);
}

/**
 * Allows a service account to connect to the sandboxes of a namespace, or to enter them, as docs/tasks/gateway.md describes.
 */
export async function allowToReach(
  client: KubeClient,
  namespace: string,
  account: { namespace: string; name: string },
  subresource: "proxy" | "exec" = "proxy",
): Promise<void> {
  const apiVersion = "rbac.authorization.k8s.io/v1";
  const metadata = { namespace, name: `${account.name}-${subresource}` };
  const rules = [{ apiGroups: ["agents.kruise.io"], resources: [`sandboxes/${subresource}`], verbs: ["create"] }];
  const roleRef = { apiGroup: "rbac.authorization.k8s.io", kind: "Role", name: metadata.name };
  const subjects = [{ kind: "ServiceAccount", ...account }];
  const resource = (plural: string, kind: string) =>
    client.resource({ group: roleRef.apiGroup, version: "v1", plural, kind, namespaced: true });
  await resource("roles", "Role").create({ apiVersion, kind: "Role", metadata, rules });
  await resource("rolebindings", "RoleBinding").create({
    apiVersion,
    kind: "RoleBinding",
    metadata,
    roleRef,
    subjects,
  });
  await untilAllowed(client, { user: userOf(account), namespace, rules });
}
