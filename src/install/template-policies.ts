import { type RestrictedField, restrictedFields, restrictedNames } from "../api/pod/template-policy.ts";
import { quotaExample, quotaItemPattern } from "../api/quota/namespace-quota.ts";
import { annotations } from "../api/names/labels.ts";
import { clientCredentialsRight, internalGroup, registrySecretPrefix } from "../api/names/system-names.ts";
import { group, rametGroup } from "../api/schema/kind.ts";
import { mayCreateCells, policyOf, type PolicyScope, selectedNamespaces, type Validation } from "./admission-policy.ts";
import type { Manifest } from "./manifest.ts";

/**
 * Returns admission policies for templates, and for what else names Secrets. The controllers create Pods with their own rights,
 * so the rights of a user who declares a sandbox must be checked while that user is known.
 */
export function templatePolicies(scope: PolicyScope): Manifest[] {
  const selectors = selectedNamespaces(scope);
  return [
    ...policyOf("ramet-templates", {
      selectors,
      apiGroup: group,
      rule: `CREATE,UPDATE ${withTemplate}`,
      // Objects from before the policy, or from when the namespace allowed more, can be changed otherwise, and deleted.
      conditions: {
        "template-changed": changed("template"),
      },
      variables: [
        { name: "template", expression: "object.?spec.?template.orValue({})" },
        { name: "allowed", expression: namesAllowedBy("namespaceObject") },
      ],
      validations: [
        { expression: `variables.allowed.all(name, name in ${knownNames})`, message: unknownName },
        ...restrictedFields.map(fieldValidation),
      ],
    }),
    ...policyOf("ramet-template-annotations", {
      rule: "CREATE,UPDATE namespaces",
      conditions: {
        "annotation-changed": `oldObject == null || ${annotation("object")} != ${annotation("oldObject")}`,
      },
      requires: {
        [`${namesAllowedBy("object")}.all(name, name in ${knownNames})`]: unknownName,
      },
    }),
    ...references("ramet-template-references", {
      apiGroup: group,
      resources: withTemplate,
      field: "template",
      selectors,
    }),
    ...recipePolicies(scope),
  ];
}

/** Returns the admission policies for named snapshots, and for the quotas of namespaces. */
export function recipePolicies(scope: PolicyScope): Manifest[] {
  return [
    ...policyOf("ramet-quota-annotation", {
      rule: "CREATE,UPDATE namespaces",
      conditions: {
        "annotation-changed": `oldObject == null || ${quota("object")} != ${quota("oldObject")}`,
      },
      variables: [{ name: "items", expression: namesIn(quota("object")) }],
      requires: {
        [`variables.items.all(item, item.matches(${JSON.stringify(quotaItemPattern)}))`]: `The annotation ${annotations.quota} of the namespace has an invalid item: write it as ${quotaExample}`,
        'variables.items.all(item, variables.items.exists_one(other, other.split("=")[0] == item.split("=")[0]))': `The annotation ${annotations.quota} of the namespace sets a limit twice`,
      },
    }),
    ...references("ramet-recipe-references", {
      apiGroup: rametGroup,
      resources: "namedsnapshots",
      field: "recipe",
      selectors: selectedNamespaces(scope),
    }),
  ];
}

const withTemplate = "sandboxes,sandboxsets,sandboxtemplates";

/** Whether a field of the spec is new or changed. */
function changed(field: string): string {
  return `oldObject == null || object.?spec.?${field} != oldObject.?spec.?${field}`;
}

const knownNames = list(restrictedNames);
const unknownName = `The annotation ${annotations.allowInTemplates} of the namespace names an unknown field: use only ${restrictedNames.join(", ")}`;

export function namesAllowedBy(namespace: string): string {
  return namesIn(annotation(namespace));
}

/** The items of a comma-separated text. */
function namesIn(optional: string): string {
  return `${optional}.orValue("").split(",").map(name, name.trim()).filter(name, name != "")`;
}

function quota(namespace: string): string {
  return `${namespace}.metadata.?annotations[?"${annotations.quota}"]`;
}

function annotation(namespace: string): string {
  return `${namespace}.metadata.?annotations[?"${annotations.allowInTemplates}"]`;
}

function fieldValidation({ name, paths, harmless }: RestrictedField): Validation {
  const conditions = paths.map((path) => absentOrHarmless("variables.template", path, harmless));
  const example = `spec.template.${(paths[0] ?? []).join(".")}`;
  return {
    expression: `"${name}" in variables.allowed || (${conditions.join(" && ")})`,
    message: `Templates in this namespace cannot use ${name} (${example}): remove it, or let an administrator add ${name} to the annotation ${annotations.allowInTemplates} of the namespace`,
  };
}

/** The same as `forbiddenFields` for one path, in CEL. A value of another shape than the path's is an error, which denies. */
function absentOrHarmless(self: string, [step = "", ...rest]: readonly string[], harmless: readonly unknown[]): string {
  if (step.endsWith("*")) return `${self}.all(key, !key.startsWith(${JSON.stringify(step.slice(0, -1))}))`;
  const key = step.replace(/\[\]$/, "");
  const value = `${self}.${key}`;
  const absent = `!has(${value}) || ${value} == null`;
  if (key === step) {
    const inner = rest.length === 0 ? isHarmless(value, harmless) : absentOrHarmless(value, rest, harmless);
    return `(${absent} || ${inner})`;
  }
  const item = `${key}_item`;
  const each = rest.length === 0 ? isHarmless(item, harmless) : absentOrHarmless(item, rest, harmless);
  return `(${absent} || (type(${value}) == list && ${value}.all(${item}, ${each})))`;
}

function isHarmless(value: string, harmless: readonly unknown[]): string {
  return harmless.length === 0 ? "false" : `${value} in ${list(harmless)}`;
}

function list(values: readonly unknown[]): string {
  return JSON.stringify(values);
}

interface Referring {
  apiGroup: string;
  resources: string;
  field: "template" | "recipe";
  selectors: ReturnType<typeof selectedNamespaces>;
}

/**
 * Checks the user's right on each Secret and service account that is named. Controllers copy templates of users and are exempt.
 * An authorization check costs 350,000 of the 1,000,000 that an expression may cost, and of the 10,000,000 of a policy, so each
 * name has an expression, and there is a limit for the names.
 */
function references(name: string, { apiGroup, resources, field, selectors }: Referring): Manifest[] {
  const secrets = field === "template" ? templateSecrets : recipeSecrets;
  return policyOf(name, {
    selectors,
    apiGroup,
    rule: `CREATE,UPDATE ${resources}`,
    conditions: {
      "references-changed": changed(field),
      "not-a-controller": `!${mayCreateCells()}`,
    },
    variables: [
      ...(field === "template"
        ? [
            {
              name: "isClientApi",
              expression: `authorizer.group("${internalGroup}").resource("${clientCredentialsRight}").namespace(request.namespace).check("create").allowed()`,
            },
            { name: "pod", expression: "object.?spec.?template.?spec.orValue({})" },
            {
              name: "containers",
              expression: `${listIn("variables.pod.?containers")} + ${listIn("variables.pod.?initContainers")}`,
            },
            { name: "volumes", expression: listIn("variables.pod.?volumes") },
            { name: "account", expression: orIfNull("variables.pod.?serviceAccountName", '""') },
            { name: "accountAlias", expression: orIfNull("variables.pod.?serviceAccount", '""') },
          ]
        : []),
      // CEL in Kubernetes cannot flatten lists, and names of Secrets have no comma.
      {
        name: "readable",
        expression: `[${secrets.join(", ")}].map(names, names.join(",")).join(",").split(",")`,
      },
      {
        name: "secrets0",
        expression: `(variables.readable${field === "template" ? ` + ${pulledWith}` : ""}).filter(name, name != "")`,
      },
      ...Array.from({ length: maxSecrets }, (_, index) => ({
        name: `secrets${index + 1}`,
        expression: `variables.secrets${index}.filter(name, name != variables.secrets${index}[0])`,
      })),
      {
        name: "anySecret",
        expression: `authorizer.group("").resource("secrets").namespace(request.namespace).check("get").allowed()`,
      },
    ],
    validations: [
      ...Array.from({ length: maxSecrets }, (_, index) => secretValidation(index, field)),
      {
        expression: `variables.secrets${maxSecrets}.size() == 0 || variables.anySecret`,
        message: `spec.${field} names more than ${maxSecrets} Secrets, which cannot be checked: use fewer, or get the right to read all Secrets of the namespace`,
      },
      ...(field === "template" ? ["account", "accountAlias"].map(accountValidation) : []),
    ],
  });
}

/** Two service accounts and the right to get any Secret are checked too, and who the client API is: 24 checks of 28. */
const maxSecrets = 20;

/**
 * The names of Secrets that a sandbox of a template can read, as lists of texts of one or more names. `join` takes only what is
 * declared as a text.
 */
const templateSecrets = [
  `variables.containers.map(c, ${listIn("c.?env")}.map(e, ${nameIn("e.?valueFrom.?secretKeyRef.?name")}).join(","))`,
  `variables.containers.map(c, ${listIn("c.?envFrom")}.map(e, ${nameIn("e.?secretRef.?name")}).join(","))`,
  `variables.volumes.map(v, ${listIn("v.?projected.?sources")}.map(s, ${nameIn("s.?secret.?name")}).join(","))`,
  ...[
    "secret.?secretName",
    "azureFile.?secretName",
    "csi.?nodePublishSecretRef.?name",
    ...["cephfs", "cinder", "flexVolume", "iscsi", "rbd", "scaleIO", "storageos"].map(
      (kind) => `${kind}.?secretRef.?name`,
    ),
  ].map((path) => `variables.volumes.map(v, ${nameIn(`v.?${path}`)})`),
];

const pulledWith = `${listIn("variables.pod.?imagePullSecrets")}.map(s, ${nameIn("s.?name")})`;

const recipeSecrets = [`${listIn("object.?spec.?recipe")}.map(s, ${nameIn("s.?copy.?secretKeyRef.?name")})`];

function nameIn(optional: string): string {
  return `string(${optional}.orValue(""))`;
}

function listIn(optional: string): string {
  return orIfNull(optional, "[]");
}

/** Generators of manifests write null for what is absent. */
function orIfNull(optional: string, otherwise: string): string {
  return `optional.ofNonZeroValue(${optional}.orValue(${otherwise})).orValue(${otherwise})`;
}

function secretValidation(index: number, field: string): Validation {
  const name = `variables.secrets${index}[0]`;
  const check = `authorizer.group("").resource("secrets").namespace(request.namespace).name(${name}).check("get").allowed()`;
  // The client API cannot read the Secrets that the controllers create for it, so its templates only pull images with them.
  const own = `(${name}.startsWith("${registrySecretPrefix}") && !(${name} in variables.readable) && variables.isClientApi)`;
  return {
    expression: `variables.secrets${index}.size() == 0 || ${field === "template" ? `${own} || ` : ""}${check}`,
    message: `spec.${field} names a Secret that you cannot read`,
    messageExpression: `"spec.${field} names the Secret " + ${name} + ", which you cannot read: get the right to get this Secret, or use a template of somebody who has it"`,
  };
}

function accountValidation(variable: string): Validation {
  const name = `variables.${variable}`;
  const check = `authorizer.group("").resource("serviceaccounts").namespace(request.namespace).name(${name}).check("impersonate").allowed()`;
  return {
    expression: `${name} in ["", "default"] || ${check}`,
    message: "spec.template.spec.serviceAccountName is an account that you cannot impersonate",
    messageExpression: `"spec.template.spec.serviceAccountName is " + ${name} + ", which you cannot impersonate: get the right to impersonate this service account"`,
  };
}
