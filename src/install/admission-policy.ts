import { internalGroup } from "../api/names/system-names.ts";
import { defined } from "../base/defined.ts";
import type { InstallOptions } from "./install-options.ts";
import type { Manifest } from "./manifest.ts";

/** A ValidatingAdmissionPolicy that denies, with its binding. Expressions are CEL. */
export interface AdmissionPolicy {
  name: string;
  /** @default all objects of the resources */
  selectors?: { namespaceSelector?: object; objectSelector?: object };
  /** @default the core group */
  apiGroup?: string;
  operations: readonly string[];
  resources: readonly string[];
  /** The policy applies where all of them are true. */
  conditions?: readonly NamedExpression[];
  /** Evaluated at most once a request, at their first use. */
  variables?: readonly NamedExpression[];
  validations: readonly Validation[];
}

/** The namespaces that the controllers serve (default: all), and that of their service account (default: `ramet-system`). */
export type PolicyScope = Partial<
  Pick<InstallOptions<unknown, unknown>, "namespaceRequirements" | "namespace" | "cells">
>;

/** The selectors of a policy for objects of the namespaces that the controllers serve. */
export function selectedNamespaces({
  namespaceRequirements: matchExpressions,
}: PolicyScope): NonNullable<AdmissionPolicy["selectors"]> {
  return matchExpressions === undefined ? {} : { namespaceSelector: { matchExpressions } };
}

interface NamedExpression {
  name: string;
  expression: string;
}

export interface Validation {
  expression: string;
  message: string;
  /** Takes the place of `message`. */
  messageExpression?: string;
}

/** True for the controllers, and for administrators: only their role has this right on a resource that does not exist. */
export function mayCreateCells(namespace = "request.namespace"): string {
  return `authorizer.group("${internalGroup}").resource("cells").namespace(${namespace}).check("create").allowed()`;
}

/** Returns the manifests of a policy. A policy that fails to evaluate denies. */
export function admissionPolicy(policy: AdmissionPolicy): Manifest[] {
  const { name, selectors, apiGroup = "", conditions, variables, validations } = policy;
  const apiVersion = "admissionregistration.k8s.io/v1";
  const apiVersions = apiGroup === "" ? ["v1"] : ["*"];
  const { operations, resources } = policy;
  return [
    {
      apiVersion,
      kind: "ValidatingAdmissionPolicy",
      metadata: { name },
      spec: {
        failurePolicy: "Fail",
        matchConstraints: {
          ...selectors,
          resourceRules: [{ apiGroups: [apiGroup], apiVersions, operations, resources }],
        },
        ...defined({ matchConditions: conditions, variables }),
        validations: validations.map((validation) => ({ ...validation, reason: "Forbidden" })),
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

interface PolicyTables extends Pick<AdmissionPolicy, "selectors" | "apiGroup" | "variables"> {
  /** Operations and resources: `UPDATE pods`, `CREATE,UPDATE sandboxes,sandboxsets`. */
  rule: string;
  /** Expressions by name. */
  conditions?: Readonly<Record<string, string>>;
  /** Messages by the expressions that must be true. */
  requires?: Readonly<Record<string, string>>;
  validations?: readonly Validation[];
}

/** Returns the manifests of a policy that is written in tables. */
export function policyOf(name: string, { rule, conditions, requires = {}, validations = [], ...policy }: PolicyTables) {
  const [operations = [], resources = []] = rule.split(" ").map((words) => words.split(","));
  const named = conditions && Object.entries(conditions).map(([key, expression]) => ({ name: key, expression }));
  const required = Object.entries(requires).map(([expression, message]) => ({ expression, message }));
  return admissionPolicy({
    ...policy,
    ...defined({ conditions: named }),
    name,
    operations,
    resources,
    validations: [...required, ...validations],
  });
}
