import { annotations } from "../api/names/labels.ts";
import { clientCredentialsRight, internalGroup } from "../api/names/system-names.ts";
import { group } from "../api/schema/kind.ts";
import { mayCreateCells, policyOf, type PolicyScope, selectedNamespaces, type Validation } from "./admission-policy.ts";
import type { Manifest } from "./manifest.ts";

/**
 * Returns the admission policies for credentials. The controllers read Secrets and request tokens with their own rights, so the
 * rights of a user who names them must be checked while that user is known.
 */
export function credentialPolicies(scope: PolicyScope): Manifest[] {
  const selectors = selectedNamespaces(scope);
  const common = { selectors, apiGroup: group, rule: `CREATE,UPDATE ${holders}` };
  return [
    ...policyOf("ramet-credential-references", {
      ...common,
      conditions: {
        // The template decides where values go, by its DNS servers for example.
        "credentials-changed": `oldObject == null || ${textsDiffer(annotations.credentials)} || (${textIn("object", annotations.credentials)} != "" && ${templateDiffers()})`,
        "not-a-controller": `!${mayCreateCells()}`,
      },
      variables: [
        { name: "text", expression: textIn("object", annotations.credentials) },
        ...distinct("secrets", "secret", maxSecrets),
        ...distinct("accounts", "token", maxAccounts),
      ],
      validations: [
        ...Array.from({ length: maxSecrets }, (_, index) =>
          checked(`variables.secrets${index}`, { resource: "secrets", verb: "get", what: "the Secret" }),
        ),
        ...Array.from({ length: maxAccounts }, (_, index) =>
          checked(`variables.accounts${index}`, {
            resource: "serviceaccounts",
            verb: "impersonate",
            what: "the service account",
          }),
        ),
        tooMany("secrets", maxSecrets, "Secrets"),
        tooMany("accounts", maxAccounts, "service accounts"),
      ],
    }),
    ...policyOf("ramet-sealed-credentials", {
      ...common,
      conditions: {
        "sealed-changed": `oldObject == null ? ${textIn("object", annotations.sealedCredentials)} != "" : (${textsDiffer(annotations.sealedCredentials)} || ${destinationsDiffer})`,
      },
      requires: {
        // Everyone can seal: only the client API may say what a client has requested.
        [`${textIn("object", annotations.sealedCredentials)} == "" || authorizer.group("${internalGroup}").resource("${clientCredentialsRight}").namespace(request.namespace).check("create").allowed()`]: `Only the client API may set the annotation ${annotations.sealedCredentials}, and change the template and credentials of a sandbox that has it: use ${annotations.credentials} for others`,
      },
    }),
  ];
}

const holders = "sandboxes,sandboxsets,sandboxtemplates,sandboxclaims";

/** An authorization check costs 350,000 of the 10,000,000 that a policy may cost. */
const maxSecrets = 16;
const maxAccounts = 4;

/** The annotation wherever it takes effect: on the object, in its Pod template, and in what a claim adds to a sandbox. */
function textIn(object: string, annotation: string): string {
  const places = [
    `${object}.metadata.?annotations`,
    `${object}.?spec.?template.?metadata.?annotations`,
    `${object}.?spec.?annotations`,
  ];
  // An annotation can be null in a template.
  const texts = places.map(
    (place) => `string(optional.ofNonZeroValue(${place}[?"${annotation}"].orValue("")).orValue(""))`,
  );
  return `[${texts.join(", ")}].filter(text, text != "").join("\\n")`;
}

function textsDiffer(annotation: string): string {
  return `${textIn("object", annotation)} != ${textIn("oldObject", annotation)}`;
}

/** Whether somebody changes where the values of a client go: its proxies, trusted certificates or DNS servers. */
const destinationsDiffer = `(${textIn("oldObject", annotations.sealedCredentials)} != "" && (${textsDiffer(annotations.credentials)} || ${templateDiffers()}) && !${mayCreateCells()})`;

function templateDiffers(): string {
  const fields = ["template", "templateRef"].map((field) => `object.?spec.?${field} != oldObject.?spec.?${field}`);
  return `(${fields.join(" || ")})`;
}

/** The names in references, each list without the name before it. */
function distinct(list: string, kind: "secret" | "token", limit: number) {
  const found = String.raw`variables.text.findAll("\\$\\(${kind}/[a-z0-9.-]+/").map(found, found.split("/")[1])`;
  return [
    { name: `${list}0`, expression: found },
    ...Array.from({ length: limit }, (_, index) => ({
      name: `${list}${index + 1}`,
      expression: `variables.${list}${index}.filter(name, name != variables.${list}${index}[0])`,
    })),
  ];
}

function checked(list: string, { resource, verb, what }: { resource: string; verb: string; what: string }): Validation {
  const name = `${list}[0]`;
  const check = `authorizer.group("").resource("${resource}").namespace(request.namespace).name(${name}).check("${verb}").allowed()`;
  return {
    expression: `${list}.size() == 0 || ${check}`,
    message: `The annotation ${annotations.credentials} names ${what} on which you lack a right`,
    messageExpression: `"The annotation ${annotations.credentials} names ${what} " + ${name} + ": get the right to ${verb} it"`,
  };
}

function tooMany(list: string, limit: number, what: string): Validation {
  return {
    expression: `variables.${list}${limit}.size() == 0`,
    message: `The annotation ${annotations.credentials} names more than ${limit} ${what}, which cannot be checked`,
  };
}
