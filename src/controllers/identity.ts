import { z } from "zod";
import type { Identity } from "../api/cell.ts";
import { RametError } from "../api/errors.ts";
import { credentialsSecret, systemNamespace } from "../api/system-names.ts";
import { cellCredentials, newCellCredentials, type CellCredentials } from "../backends/cell-credentials.ts";
import type { KubeClient } from "../kube/kube-client.ts";
import { ObjectMeta } from "../kube/object.ts";
import type { ResourceClient } from "../kube/resource-client.ts";
import { coreResources } from "../kube/resource-ref.ts";

/** Reads the credentials of this cluster's cells from their Secret, and makes it if there is none. */
export async function clusterCredentials(client: KubeClient, signal?: AbortSignal): Promise<CellCredentials> {
  const secrets = secretsOf(client);
  return fromSecret((await secrets.find(at, { signal })) ?? (await createSecret()));

  async function createSecret(): Promise<CredentialsSecret> {
    await createSystemNamespace(client, signal);
    const { privateKeyPem, clusterSecret } = newCellCredentials();
    const secret = {
      apiVersion: "v1",
      kind: "Secret",
      metadata: at,
      // Whoever could change the key could not speak to running cells any more.
      immutable: true,
      data: { "private-key.pem": Buffer.from(privateKeyPem).toString("base64"), "cluster-secret": clusterSecret },
    };
    try {
      return await secrets.create(secret, { signal });
    } catch (error) {
      // Another controller was faster: its key is the cluster's.
      if (RametError.from(error).code !== "AlreadyExists") throw error;
      return secrets.get(at, { signal });
    }
  }
}

/**
 * The same, where nothing is to be made: for whoever speaks to cells beside the controllers.
 * @throws RametError `NotFound` when no controller has made it yet, `Forbidden`
 */
export async function readClusterCredentials(client: KubeClient, signal?: AbortSignal): Promise<CellCredentials> {
  return fromSecret(await secretsOf(client).get(at, { signal }));
}

export async function createSystemNamespace(client: KubeClient, signal?: AbortSignal): Promise<void> {
  const namespace = { apiVersion: "v1", kind: "Namespace", metadata: { name: systemNamespace } };
  try {
    await client.resource(coreResources.namespaces).create(namespace, { signal });
  } catch (error) {
    if (RametError.from(error).code !== "AlreadyExists") throw error;
  }
}

/** Who a sandbox is. Deterministic: a repeated boot gives the same identity, and two sandboxes never share one. */
export function identityOf(
  sandbox: { metadata: { namespace: string; name: string; uid: string } },
  environment: Record<string, string>,
  credentials: Pick<CellCredentials, "guestToken">,
): Identity {
  const { namespace, name, uid } = sandbox.metadata;
  return {
    sandboxId: `${namespace}--${name}`,
    hostname: name,
    accessToken: credentials.guestToken(uid),
    environment,
  };
}

const CredentialsSecret = z.looseObject({
  metadata: ObjectMeta,
  data: z.looseObject({ "private-key.pem": z.string().min(1), "cluster-secret": z.string().min(1) }),
});
type CredentialsSecret = z.infer<typeof CredentialsSecret>;

const at = { namespace: systemNamespace, name: credentialsSecret };

function secretsOf(client: KubeClient): ResourceClient<CredentialsSecret> {
  return client.resource(coreResources.secrets, (value) => CredentialsSecret.parse(value));
}

function fromSecret({ data }: CredentialsSecret): CellCredentials {
  return cellCredentials({
    privateKeyPem: Buffer.from(data["private-key.pem"], "base64").toString("utf8"),
    clusterSecret: data["cluster-secret"],
  });
}
