import { gatewayAddress } from "../api/names/system-names.ts";
import { defined } from "../base/defined.ts";
import type { Manifest } from "./manifest.ts";
import { publicConfigMap } from "./rights.ts";

export interface GatewayAddress<Text = string> {
  /** Such as `https://gateway.example.org`. */
  url: Text;
  /** The domain below which sandboxes have host names. @default they have none */
  domain?: Text | undefined;
  /** PEM of the certificate authority that signed its certificate. @default the system's certificate authorities */
  ca?: Text | undefined;
  /** `<namespace>/<name>` of the service account whose tokens users use who name none. @default none */
  serviceAccount?: Text;
}

/** The address of a server without a path, such as `https://gateway.example.org`. @returns undefined if it is none */
export function parseOriginUrl(text: string): URL | undefined {
  if (!URL.canParse(text)) return undefined;
  const url = new URL(text);
  const isOrigin = url.pathname === "/" && url.search === "" && url.hash === "" && url.username === "";
  return isOrigin && (url.protocol === "https:" || url.protocol === "http:") ? url : undefined;
}

/** Returns the ConfigMap with the address of the gateways, and the permission of all authenticated users to read it. */
export function gatewayAddressManifests({ url, domain, ca, serviceAccount }: GatewayAddress<unknown>): Manifest[] {
  return publicConfigMap(gatewayAddress.configMap, {
    [gatewayAddress.url]: url,
    ...defined({
      [gatewayAddress.domain]: domain,
      [gatewayAddress.ca]: ca,
      [gatewayAddress.serviceAccount]: serviceAccount,
    }),
  });
}
