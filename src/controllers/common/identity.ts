import * as z from "zod";
import type { Identity } from "../../api/cell/cell-api.ts";
import { credentialsSecret, privateKeyEntry, systemNamespace } from "../../api/names/system-names.ts";
import { cellCredentials, newCellCredentials, type CellCredentials } from "../../backends/cell-credentials.ts";
import type { KubeClient } from "../../kube/kube-client.ts";
import { ObjectMeta } from "../../kube/object.ts";
import { coreResources } from "../../kube/resource-ref.ts";
import { keptSecret } from "./kept-secret.ts";

/** Reads the credentials of this cluster's cells from their Secret, and makes it if there is none. */
export async function clusterCredentials(client: KubeClient, signal?: AbortSignal): Promise<CellCredentials> {
  const secret = { name: credentialsSecret, schema: CredentialsSecret, make: newValues };
  return fromSecret(await keptSecret(client, secret, signal));
}

function newValues(): Record<string, string> {
  const { privateKeyPem, clusterSecret } = newCellCredentials();
  return { [privateKeyEntry]: Buffer.from(privateKeyPem).toString("base64"), "cluster-secret": clusterSecret };
}

/**
 * The same, where nothing is to be made: for whoever speaks to cells beside the controllers.
 * @throws RametError `NotFound` when no controller has made it yet, `Forbidden`
 */
export async function readClusterCredentials(client: KubeClient, signal?: AbortSignal): Promise<CellCredentials> {
  const secrets = client.resource(coreResources.secrets, (value) => CredentialsSecret.parse(value));
  return fromSecret(await secrets.get({ namespace: systemNamespace, name: credentialsSecret }, { signal }));
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
  data: z.looseObject({ [privateKeyEntry]: z.string().min(1), "cluster-secret": z.string().min(1) }),
});

function fromSecret({ data }: z.infer<typeof CredentialsSecret>): CellCredentials {
  return cellCredentials({
    privateKeyPem: Buffer.from(data[privateKeyEntry], "base64").toString("utf8"),
    clusterSecret: data["cluster-secret"],
  });
}
