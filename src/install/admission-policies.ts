import { labels } from "../api/names/labels.ts";
import { controllerName, registrySecretPrefix, systemNamespace } from "../api/names/system-names.ts";
import { nodeCacheVolumeName } from "../api/pod/cell-container.ts";
import { group, rametGroup } from "../api/schema/kind.ts";
import { importGuard } from "../api/kinds/volume-import.ts";
import { admissionPolicy, mayCreateCells, policyOf, type PolicyScope, selectedNamespaces } from "./admission-policy.ts";
import { credentialPolicies } from "./credential-policies.ts";
import type { Manifest } from "./manifest.ts";
import { namesAllowedBy, templatePolicies } from "./template-policies.ts";

/** Returns all admission policies: those that keep users out of cells, those for templates, and those for API keys and imports. */
export function admissionPolicies(scope: PolicyScope = {}): Manifest[] {
  return [
    ...cellPolicies(scope),
    ...templatePolicies(scope),
    ...credentialPolicies(scope),
    ...apiKeyPolicy(),
    ...controllerPolicies(scope),
    // Without it, the controllers import no volumes.
    ...admissionPolicy(importGuard),
  ];
}

/**
 * A user inside a cell's Pod could read the sandbox's memory, and would be root on the node; a user who creates a Pod in the
 * place of a cell would be sent identities and grants. The usual rights in a namespace would suffice for both. A policy for
 * `kubectl exec` cannot select Pods by label, so it covers all Pods of the namespaces that have sandboxes. Commands in sandboxes
 * and the kubelet's probes are not affected.
 */
function cellPolicies(scope: PolicyScope): Manifest[] {
  const isCell = { objectSelector: { matchLabels: { [labels.cell]: "true" } } };
  return [
    ...policyOf("ramet-cell-containers", {
      selectors: isCell,
      rule: "UPDATE pods/ephemeralcontainers",
      requires: {
        false:
          "This Pod runs a sandbox, so ephemeral containers are not allowed: run commands with `ramet sandbox exec`",
      },
    }),
    ...policyOf("ramet-cell-spec", {
      selectors: isCell,
      rule: "UPDATE pods,pods/resize",
      conditions: {
        "cell-changed": `object.spec != oldObject.spec || ${["labels", "annotations"].map(ownKeysDiffer).join(" || ")}`,
      },
      requires: {
        [mayCreateCells()]: `This Pod runs a sandbox, so only Ramet's controllers change its spec, and its labels and annotations of ${rametGroup}: change the Sandbox instead`,
      },
    }),
    ...policyOf("ramet-cell-labels", {
      selectors: isCell,
      rule: "UPDATE pods",
      requires: {
        [`${cellLabel("object")}.orValue("") == "true"`]: `This Pod runs a sandbox, so its label ${labels.cell} cannot be removed`,
      },
    }),
    ...policyOf("ramet-cell-owners", {
      // Elsewhere, another controller creates the Pods of Sandboxes.
      selectors: selectedNamespaces(scope),
      rule: "CREATE,UPDATE pods",
      conditions: {
        "claims-to-be-a-cell": `${claimsLabel} || ${claimsOwner}`,
      },
      requires: {
        [mayCreateCells()]: `Only Ramet's controllers create Pods with the label ${labels.cell} or a Sandbox as their owner: create a Sandbox instead`,
      },
    }),
    ...policyOf("ramet-exec", {
      selectors: {
        namespaceSelector: {
          matchExpressions: [
            { key: labels.sandboxes, operator: "In", values: ["true"] },
            { key: labels.allowExec, operator: "NotIn", values: ["true"] },
          ],
        },
      },
      rule: `CONNECT ${entrances}`,
      requires: {
        false: `This namespace has sandboxes, so exec, attach, port-forward and proxy are not allowed for its Pods: run commands in sandboxes with \`ramet sandbox exec\`, or let an administrator set the label ${labels.allowExec}=true on the namespace`,
      },
    }),
    ...policyOf("ramet-deny-exec", {
      selectors: { namespaceSelector: { matchLabels: { [labels.denyExec]: "true" } } },
      rule: `CONNECT ${entrances}`,
      requires: {
        false: `The label ${labels.denyExec} of this namespace forbids exec, attach, port-forward and proxy: run commands in sandboxes with \`ramet sandbox exec\``,
      },
    }),
    ...policyOf("ramet-sandboxes-label", {
      selectors: { objectSelector: { matchLabels: { [labels.sandboxes]: "true" } } },
      rule: "UPDATE namespaces",
      conditions: {
        "label-changed": `${isMarked("oldObject")} && !${isMarked("object")}`,
      },
      requires: {
        [mayCreateCells("object.metadata.name")]:
          `This namespace has sandboxes, so only an administrator can remove its label ${labels.sandboxes}`,
      },
    }),
  ];
}

const entrances = "pods/exec,pods/attach,pods/portforward,pods/proxy";

function cellLabel(pod: string): string {
  return `${pod}.metadata.?labels[?"${labels.cell}"]`;
}

function isMarked(namespace: string): string {
  return `(${namespace}.metadata.?labels[?"${labels.sandboxes}"].orValue("") == "true")`;
}

/** Another image would run with the rights of a cell, and the controllers rely on their annotations. */
function ownKeysDiffer(field: string): string {
  const [now, before] = ["object", "oldObject"].map((pod) => `${pod}.metadata.?${field}.orValue({})`);
  const has = (one?: string, other?: string) =>
    `${one}.all(key, !key.startsWith("${rametGroup}/") || key == "${labels.cell}" || ${other}[?key] == ${one}[?key])`;
  return `!(${has(now, before)} && ${has(before, now)})`;
}

// Users and other controllers may change what else a cell's Pod has, such as its annotations.
const claimsLabel = `(${cellLabel("object")}.hasValue() && (oldObject == null || ${cellLabel("object")} != ${cellLabel("oldObject")}))`;
const claimsOwner = `${sandboxOwners("object")}.exists(owner, oldObject == null || !${sandboxOwners("oldObject")}.exists(old, old == owner))`;

function sandboxOwners(pod: string): string {
  const owners = `${pod}.metadata.?ownerReferences.orValue([])`;
  return `${owners}.filter(one, one.kind == "Sandbox" && one.apiVersion.startsWith("${group}/"))`;
}

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

/**
 * Returns the admission policies for what the controllers themselves create. RBAC cannot limit a right to types, names and labels: a
 * Secret can be a token of any service account, and a Pod can run anything.
 */
export function controllerPolicies({ namespace = systemNamespace, cells }: PolicyScope): Manifest[] {
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
        [`"hostPath" in ${namesAllowedBy("namespaceObject")} || object.spec.?volumes.orValue([]).all(one, ${isNodeCache(cells?.nodeCachePath)})`]:
          "The controllers create only Pods without hostPath volumes, except those of the node's cache and of namespaces that allow them",
      },
    }),
  ];
}

/**
 * Whether a volume is no directory of the node, or that of the namespace in the cache. What the API server declares of namespaces and
 * what it has differ in the name of the UID. The path of a Pulumi program is known too late for the expression.
 */
function isNodeCache(path: unknown): string {
  if (path === undefined) return "!has(one.hostPath)";
  const uid = '"/" + dyn(namespaceObject).metadata.uid';
  const isOwn =
    typeof path === "string" ? `one.hostPath.path == "${path}" + ${uid}` : `one.hostPath.path.endsWith(${uid})`;
  return `!has(one.hostPath) || one.name == "${nodeCacheVolumeName}" && ${isOwn}`;
}
