import { readFile, writeFile } from "node:fs/promises";
import { parse, stringify } from "yaml";
import * as z from "zod";
import type { KubeClient } from "../../src/kube/kube-client.ts";
import type { ObjectName } from "../../src/kube/object.ts";
import type { ResourceRef } from "../../src/kube/resource-ref.ts";

export const serviceAccounts: ResourceRef = {
  group: "",
  version: "v1",
  plural: "serviceaccounts",
  kind: "ServiceAccount",
  namespaced: true,
};

/** Requests a token of an existing service account. @param audience @default the API server */
export async function tokenOf(client: KubeClient, account: ObjectName, audience?: string): Promise<string> {
  const spec = audience === undefined ? {} : { audiences: [audience] };
  const request = { apiVersion: "authentication.k8s.io/v1", kind: "TokenRequest", metadata: {}, spec };
  const answer = await client.resource(serviceAccounts).postSubresource(account, "token", request);
  return Token.parse(answer).status.token;
}

/** Writes a copy of a kubeconfig for another user. */
export async function writeKubeconfig(path: string, { like, user }: { like: string; user: object }): Promise<void> {
  const config = Config.parse(parse(await readFile(like, "utf8")));
  const users = config.users.map(({ name }) => ({ name, user }));
  await writeFile(path, stringify({ ...config, users }), { mode: 0o600 });
}

const Token = z.looseObject({ status: z.looseObject({ token: z.string() }) });
const Config = z.looseObject({ users: z.array(z.looseObject({ name: z.string() })) });
