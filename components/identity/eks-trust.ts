import { jsonStringify, output, type Input, type Output } from "@pulumi/pulumi";
import { RametError } from "../../src/base/errors.ts";
import { runError } from "../refusal.ts";

/** How service accounts of a cluster of EKS get roles of IAM. */
export interface EksIdentity {
  /** How they get them. IRSA needs `oidcProviderArn`. @default "podIdentity" */
  identity?: "podIdentity" | "irsa";
  /** The cluster's OpenID Connect provider in IAM, for IRSA. */
  oidcProviderArn?: Input<string>;
}

/** @param path of the arguments, as the message names them: `eks.`, or nothing @throws RunError for what is missing */
export function checkIdentity({ identity, oidcProviderArn }: EksIdentity, path: "eks." | "" = ""): void {
  if (identity !== "irsa" || oidcProviderArn !== undefined) return;
  const what = "the ARN of the cluster's OpenID Connect provider in IAM";
  throw runError(new RametError("InvalidArgument", `${path}oidcProviderArn is missing: ${what}`));
}

export interface ServiceAccountRef {
  namespace: string;
  serviceAccount: string;
}

/** Has the service account alone take a role: by IRSA the role says so, by Pod Identity the association with it. */
export function trust(
  { identity = "podIdentity", oidcProviderArn }: EksIdentity,
  account: ServiceAccountRef,
): Output<string> {
  if (identity === "podIdentity") {
    const Principal = { Service: "pods.eks.amazonaws.com" };
    return policy([{ Effect: "Allow", Principal, Action: ["sts:AssumeRole", "sts:TagSession"] }]);
  }
  return output(oidcProviderArn ?? "").apply((arn) => {
    const issuer = arn.replace(/^.*:oidc-provider\//, "");
    const subject = `system:serviceaccount:${account.namespace}:${account.serviceAccount}`;
    const Condition = { StringEquals: { [`${issuer}:aud`]: "sts.amazonaws.com", [`${issuer}:sub`]: subject } };
    const Principal = { Federated: arn };
    return policy([{ Effect: "Allow", Principal, Action: "sts:AssumeRoleWithWebIdentity", Condition }]);
  });
}

export function policy(Statement: readonly Record<string, unknown>[]): Output<string> {
  return jsonStringify({ Version: "2012-10-17", Statement });
}
