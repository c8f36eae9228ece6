import { z } from "zod";
import { gatewayKeySecret, privateKeyEntry } from "../api/names/system-names.ts";
import { newCellKeyPem, publicKeyOf } from "../backends/cell-credentials.ts";
import type { KubeClient } from "../kube/kube-client.ts";
import { ObjectMeta } from "../kube/object.ts";
import { keptSecret } from "./common/kept-secret.ts";

/**
 * The public half of the key of this cluster's gateways, base64url of its 32 bytes. It is one of its own, so that a gateway, to which
 * everybody may speak, can open ports and nothing else.
 */
export async function clusterGatewayKey(client: KubeClient, signal?: AbortSignal): Promise<string> {
  const make = () => ({ [privateKeyEntry]: Buffer.from(newCellKeyPem()).toString("base64") });
  const { data } = await keptSecret(client, { name: gatewayKeySecret, schema: KeySecret, make }, signal);
  return publicKeyOf(Buffer.from(data[privateKeyEntry], "base64").toString("utf8"));
}

const KeySecret = z.looseObject({
  metadata: ObjectMeta,
  data: z.looseObject({ [privateKeyEntry]: z.string().min(1) }),
});
