import { rametGroup } from "../api/schema/kind.ts";
import { policyOf } from "./admission-policy.ts";
import type { Manifest } from "./manifest.ts";

/**
 * Who writes a key's account or digests can then act as the account, as with a token of it. Therefore the user needs the right to
 * request such tokens. The limits and the metadata can be changed without it. The policy applies in all namespaces, because the
 * account decides and not where the controllers work.
 */
export function apiKeyPolicy(): Manifest[] {
  return policyOf("ramet-api-keys", {
    apiGroup: rametGroup,
    rule: "CREATE,UPDATE apikeys",
    conditions: {
      "account-or-digests-changed": `oldObject == null || ${changed("serviceAccountName")} || ${changed("digests")}`,
    },
    validations: [
      {
        expression: `authorizer.group("").resource("serviceaccounts").subresource("token").namespace(request.namespace).name(${account}).check("create").allowed()`,
        message: "spec.serviceAccountName is an account of which you cannot request tokens",
        messageExpression: `"spec.serviceAccountName is " + ${account} + ", of which you cannot request tokens: get the right to create serviceaccounts/token for this service account"`,
      },
    ],
  });
}

const account = "object.spec.serviceAccountName";

function changed(field: string): string {
  return `object.spec.${field} != oldObject.spec.${field}`;
}
