import { labels } from "../api/names/labels.ts";
import type { Manifest } from "./manifest.ts";

/**
 * Whoever gets into a cell's Pod has the memory of its sandbox and what the cell holds for it, and needs only a namespace's usual rights for
 * that. Nobody may add a container to one. Who may start a command in a Pod, the API server is not asked with the Pod at hand: so that
 * is refused for all Pods of a namespace that is marked, and there alone. Commands in sandboxes, and a kubelet's probes, are neither.
 */
export function cellPolicies(): Manifest[] {
  const isCell = { objectSelector: { matchLabels: { [labels.cell]: "true" } } };
  return [
    ...policy("ramet-cell-containers", isCell, {
      operations: ["UPDATE"],
      resources: ["pods/ephemeralcontainers"],
      expression: "false",
      message: "This Pod is a sandbox's, and no container may be added to it: run commands with `ramet sandbox exec`",
    }),
    ...policy("ramet-cell-labels", isCell, {
      operations: ["UPDATE"],
      resources: ["pods"],
      expression: `has(object.metadata.labels) && object.metadata.labels[?"${labels.cell}"].orValue("") == "true"`,
      message: `This Pod is a sandbox's, and its label ${labels.cell} stays`,
    }),
    ...policy(
      "ramet-deny-exec",
      { namespaceSelector: { matchLabels: { [labels.denyExec]: "true" } } },
      {
        operations: ["CONNECT"],
        resources: ["pods/exec", "pods/attach"],
        expression: "false",
        message: `This namespace has the label ${labels.denyExec}, which is for sandboxes: run commands with \`ramet sandbox exec\``,
      },
    ),
  ];
}

interface Rule {
  operations: string[];
  resources: string[];
  /** What must hold. */
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
