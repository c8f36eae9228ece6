import { Config, type Input } from "@pulumi/pulumi";
import { findStack } from "../../provider/handlers/snapshot-stack/find-stack.ts";
import type { StackSeen } from "../../provider/handlers/snapshot-stack/stack-seen.ts";
import { knownValue } from "../known-value.ts";

/**
 * Looks at the cluster of a kubeconfig, else at the one that Pulumi's Kubernetes provider uses by itself.
 * @returns undefined where a preview does not know the kubeconfig yet: the cluster is still to be made
 * @throws RametError when the cluster cannot be reached
 */
export async function lookAt(kubeconfig: Input<string> | undefined): Promise<StackSeen | undefined> {
  const configuration = new Config("kubernetes");
  const given = kubeconfig === undefined ? undefined : await knownValue(kubeconfig);
  if (kubeconfig !== undefined && given === undefined) return undefined;
  const get = (key: string): string | undefined => {
    if (given !== undefined) return key === "kubernetes:kubeconfig" ? given : undefined;
    return configuration.get(key.replace(/^kubernetes:/, ""));
  };
  return findStack({ configuration: { get }, environment: process.env });
}
