/**
 * What Pulumi's Kubernetes provider waits for: all of these conditions (https://github.com/pulumi/pulumi-kubernetes/pull/3134).
 * It is an annotation of the object, and has no effect in the cluster.
 */
export function waitingFor(...conditions: string[]): Record<string, string> {
  return { "pulumi.com/waitFor": JSON.stringify(conditions.map((condition) => `condition=${condition}`)) };
}
