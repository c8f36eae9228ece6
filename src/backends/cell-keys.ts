import * as z from "zod";
import { credentialsSecret, gatewayKeySecret, privateKeyEntry, systemNamespace } from "../api/names/system-names.ts";
import type { KubeClient } from "../kube/kube-client.ts";
import { ObjectMeta } from "../kube/object.ts";
import { coreResources } from "../kube/resource-ref.ts";
import {
  cellCredentials,
  type CellCredentials,
  newCellCredentials,
  newCellKeyPem,
  publicKeyOf,
} from "./cell-credentials.ts";
import { keptSecret } from "./kept-secret.ts";

/** Reads the credentials of this cluster's cells from their Secret. Creates the Secret if it does not exist. */
export async function clusterCredentials(client: KubeClient, signal?: AbortSignal): Promise<CellCredentials> {
  const secret = { name: credentialsSecret, schema: CredentialsSecret, make: newValues };
  return fromSecret(await keptSecret(client, secret, signal));
}

/**
 * Reads the credentials of this cluster's cells, for clients other than the controllers. Creates nothing.
 * @throws RametError `NotFound` before a controller has created them, `Forbidden`
 */
export async function readClusterCredentials(client: KubeClient, signal?: AbortSignal): Promise<CellCredentials> {
  const secrets = client.resource(coreResources.secrets, (value) => CredentialsSecret.parse(value));
  return fromSecret(await secrets.get({ namespace: systemNamespace, name: credentialsSecret }, { signal }));
}

/**
 * The public half of the key of this cluster's gateways, base64url of its 32 bytes. Any client may connect to a gateway, so
 * gateways have a separate key, which can only open ports of sandboxes.
 */
export async function clusterGatewayKey(client: KubeClient, signal?: AbortSignal): Promise<string> {
  const make = () => ({ [privateKeyEntry]: base64(newCellKeyPem()) });
  const { data } = await keptSecret(client, { name: gatewayKeySecret, schema: KeySecret, make }, signal);
  return publicKeyOf(Buffer.from(data[privateKeyEntry], "base64").toString("utf8"));
}

function newValues(): Record<string, string> {
  const { privateKeyPem, clusterSecret } = newCellCredentials();
  return { [privateKeyEntry]: base64(privateKeyPem), "cluster-secret": clusterSecret };
}

function base64(text: string): string {
  return Buffer.from(text).toString("base64");
}

const KeySecret = z.looseObject({
  metadata: ObjectMeta,
  data: z.looseObject({ [privateKeyEntry]: z.string().min(1) }),
});

const CredentialsSecret = z.looseObject({
  metadata: ObjectMeta,
  data: z.looseObject({ [privateKeyEntry]: z.string().min(1), "cluster-secret": z.string().min(1) }),
});

function fromSecret({ data }: z.infer<typeof CredentialsSecret>): CellCredentials {
  return cellCredentials({
    privateKeyPem: Buffer.from(data[privateKeyEntry], "base64").toString("utf8"),
    clusterSecret: data["cluster-secret"],
  });
}
