import { labels } from "../api/names/labels.ts";
import type { Manifest } from "./manifest.ts";

/**
 * Returns admission policies that keep users out of cell Pods. A user inside such a Pod could read the sandbox's memory and the
 * cell's credentials, and the usual permissions in a namespace would suffice for that. The policies forbid ephemeral containers
 * in cell Pods. A policy for `kubectl exec` cannot select Pods by label, so that policy covers all Pods of a namespace, and only
 * namespaces with a label. Commands in sandboxes and the kubelet's probes are not affected.
 */
export function cellPolicies(): Manifest[] {
  const isCell = { objectSelector: { matchLabels: { [labels.cell]: "true" } } };
  return [
    ...policy("ramet-cell-containers", isCell, {
      operations: ["UPDATE"],
      resources: ["pods/ephemeralcontainers"],
      expression: "false",
      message:
        "This Pod runs a sandbox, so ephemeral containers are not allowed: run commands with `ramet sandbox exec`",
    }),
    ...policy("ramet-cell-labels", isCell, {
      operations: ["UPDATE"],
      resources: ["pods"],
      expression: `has(object.metadata.labels) && object.metadata.labels[?"${labels.cell}"].orValue("") == "true"`,
      message: `This Pod runs a sandbox, so its label ${labels.cell} cannot be removed`,
    }),
    ...policy(
      "ramet-deny-exec",
      { namespaceSelector: { matchLabels: { [labels.denyExec]: "true" } } },
      {
        operations: ["CONNECT"],
        resources: ["pods/exec", "pods/attach"],
        expression: "false",
        message: `The label ${labels.denyExec} of this namespace forbids exec and attach: run commands in sandboxes with \`ramet sandbox exec\``,
      },
    ),
  ];
}

interface Rule {
  operations: string[];
  resources: string[];
  /** A CEL expression that must be true. */
  expression: string;
  message: string;
}

function policy(name: string, selectors: object, { operations, resources, expression, message }: Rule): Manifest[] {
  const apiVersion = "admissionregistration.k8s.io/v1";
  const resourceRules = [{ apiGroups: [""], apiVersions: ["v1"], operations, resources }];
  return [
    {
      apiVersion,
      kind: "ValidatingAdmissionPolicy",
      metadata: { name },
      spec: {
        failurePolicy: "Fail",
        matchConstraints: { ...selectors, resourceRules },
        validations: [{ expression, message, reason: "Forbidden" }],
      },
    },
    {
      apiVersion,
      kind: "ValidatingAdmissionPolicyBinding",
      metadata: { name },
      spec: { policyName: name, validationActions: ["Deny"] },
    },
  ];
}
