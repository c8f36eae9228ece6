import { RametError } from "../../../src/base/errors.ts";
import type { Finding } from "../../../src/preflight/finding.ts";
import { checkTheCluster } from "../../../src/preflight/preflight.ts";
import { type ClusterEnvironment, withCluster } from "../open-cluster.ts";

/** The warnings and errors of `ramet doctor` for the cluster of a program. Empty if it cannot be checked. */
export async function problemsOfCluster(env: ClusterEnvironment): Promise<Finding[]> {
  try {
    const findings = await withCluster(env, (client) => checkTheCluster(client, { namespace: client.namespace }));
    return findings.filter(({ level }) => level === "warning" || level === "error");
  } catch (error) {
    // A preview must not fail for a check. Needs of the program that the cluster does not meet fail later.
    if (RametError.from(error).code === "Internal") throw error;
    return [];
  }
}
