import { labels } from "../api/names/labels.ts";
import { controllerName, registrySecretPrefix, systemNamespace } from "../api/names/system-names.ts";
import { policyOf, type PolicyScope } from "./admission-policy.ts";
import type { Manifest } from "./manifest.ts";

/**
 * Returns the admission policies for what the controllers themselves create. RBAC cannot limit a right to types, names and labels: a
 * Secret can be a token of any service account, and a Pod can run anything.
 */
export function controllerPolicies({ namespace = systemNamespace }: PolicyScope): Manifest[] {
  const conditions = {
    "the-controllers": `request.userInfo.username == "system:serviceaccount:${namespace}:${controllerName}"`,
  };
  return [
    ...policyOf("ramet-controller-secrets", {
      rule: "CREATE,UPDATE secrets",
      conditions,
      requires: {
        [`object.type == (request.namespace == "${systemNamespace}" ? "Opaque" : "kubernetes.io/dockerconfigjson")`]: `The controllers create only keys in ${systemNamespace}, and Secrets for image pulls elsewhere`,
        [`request.namespace == "${systemNamespace}" || object.metadata.name.startsWith("${registrySecretPrefix}")`]: `The names of Secrets that the controllers create for image pulls begin with ${registrySecretPrefix}`,
      },
    }),
    ...policyOf("ramet-controller-pods", {
      rule: "CREATE pods",
      conditions,
      requires: {
        [`object.metadata.?labels[?"${labels.cell}"].orValue("") == "true" && object.spec.?automountServiceAccountToken == optional.of(false)`]:
          "The controllers create only Pods that run cells, without a token of a service account",
      },
    }),
  ];
}
