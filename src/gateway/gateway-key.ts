import { z } from "zod";
import { gatewayKeySecret, privateKeyEntry, systemNamespace } from "../api/names/system-names.ts";
import { cellKeyFromPem, type CellKey } from "../cell/client/cell-token.ts";
import { delay } from "../base/clock.ts";
import type { KubeClient } from "../kube/kube-client.ts";
import type { Log } from "../base/log.ts";
import { ObjectMeta } from "../kube/object.ts";
import { coreResources } from "../kube/resource-ref.ts";

const pauseMilliseconds = 250;

/** The key of this cluster's gateways; waits for the controllers to make it. @throws RametError `Forbidden`, `Canceled` */
export async function gatewayKey(client: KubeClient, log: Log, signal: AbortSignal): Promise<CellKey> {
  const secrets = client.resource(coreResources.secrets, (value) => KeySecret.parse(value));
  const at = { namespace: systemNamespace, name: gatewayKeySecret };
  for (let tries = 0; ; tries += 1) {
    const found = await secrets.find(at, { signal });
    if (found !== undefined) return cellKeyFromPem(Buffer.from(found.data[privateKeyEntry], "base64").toString("utf8"));
    if (tries === 0)
      log.info({ secret: `${at.namespace}/${at.name}` }, "the gateway waits for its key, which the controllers make");
    await delay(client.clock, pauseMilliseconds, signal);
  }
}

const KeySecret = z.looseObject({
  metadata: ObjectMeta,
  data: z.looseObject({ [privateKeyEntry]: z.string().min(1) }),
});
