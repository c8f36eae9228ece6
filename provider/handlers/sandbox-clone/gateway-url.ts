import * as z from "zod";
import { gatewayAddress, systemNamespace } from "../../../src/api/names/system-names.ts";
import type { KubeClient } from "../../../src/kube/kube-client.ts";
import { coreResources } from "../../../src/kube/resource-ref.ts";
import type { KubeObject } from "../../../src/kube/object.ts";

/** How users of the cluster reach its gateways. */
export interface PublishedGateway {
  url: URL;
  /** The domain below which sandboxes have host names. */
  domain: string;
}

const Published = z.looseObject({
  data: z.object({
    [gatewayAddress.url]: z.url({ protocol: /^https?$/ }),
    [gatewayAddress.domain]: z.string().min(1).max(253),
  }),
});

/** Undefined if the gateways have no domain, or if the user cannot read it. */
export async function publishedGateway(client: KubeClient): Promise<PublishedGateway | undefined> {
  const at = { namespace: systemNamespace, name: gatewayAddress.configMap };
  const found = await client
    .resource(coreResources.configMaps)
    .find(at)
    .catch(() => undefined);
  const { data } = Published.safeParse(found);
  return data && { url: new URL(data.data[gatewayAddress.url]), domain: data.data[gatewayAddress.domain] };
}

/** The address of a port: `https://8000-team-a--dev.sandboxes.example.org`. */
export function urlBelow({ url, domain }: PublishedGateway, { metadata }: KubeObject, port: number): string {
  const { namespace = "", name, uid } = metadata;
  const label = `${port}-${namespace}--${name}`;
  // Gateways find other names by the UID only, and a label of DNS has at most 63 characters.
  const isPlain = !namespace.includes("--") && !name.includes("--") && label.length <= 63;
  const host = isPlain ? label : `${port}-${uid.replaceAll("-", "")}`;
  return `${url.protocol}//${host}.${domain}${url.port === "" ? "" : `:${url.port}`}`;
}
