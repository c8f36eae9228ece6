import { RametError } from "../../src/base/errors.ts";
import type { KubeClient } from "../../src/kube/kube-client.ts";
import { withCluster, type Surroundings } from "./open-cluster.ts";

/** Reads what `look` reads of the cluster that `withCluster` knows. @throws RametError `Timeout` when it has not answered in time */
export function lookAtCluster<Seen>(
  around: Surroundings,
  look: (client: KubeClient, signal: AbortSignal) => Promise<Seen>,
  { withinMilliseconds = 10_000 } = {},
): Promise<Seen> {
  return withCluster(around, async (client) => {
    const over = new AbortController();
    const cancel = client.clock.schedule(withinMilliseconds, () => {
      over.abort();
    });
    try {
      return await look(client, over.signal);
    } catch (error) {
      throw over.signal.aborted ? unanswered(withinMilliseconds, error) : error;
    } finally {
      cancel();
    }
  });
}

function unanswered(milliseconds: number, cause: unknown): RametError {
  const what = `The cluster did not answer within ${milliseconds / 1000} s`;
  const hint = "Check that the address in the kubeconfig can be reached from here";
  return new RametError("Timeout", what, { hint, retryable: true, cause });
}
