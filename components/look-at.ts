import { log, runtime, type ComponentResource, type Input } from "@pulumi/pulumi";
import type { ErrorCode } from "../src/api/error-codes.ts";
import { RametError } from "../src/api/errors.ts";
import type { Surroundings } from "../provider/handlers/open-cluster.ts";
import { knownValue } from "./known-value.ts";
import { programSurroundings } from "./program-surroundings.ts";
import { refusal } from "./refusal.ts";

export interface Look<Seen> {
  /** @throws RametError when the cluster cannot be reached */
  find: (around: Surroundings) => Promise<Seen>;
  /** The cluster's, as text; else the one is looked at that Pulumi's Kubernetes provider uses by itself. */
  kubeconfig: Input<string> | undefined;
  /** What a preview does that cannot look: a part of a sentence. */
  without: string;
}

/**
 * Looks at the cluster in which a component declares its objects, before it does; a preview goes on without the cluster.
 * @returns undefined in a preview, of a cluster that cannot be reached or is still to be made
 * @throws RunError when the cluster cannot be reached, or is not known to be the one of the component's provider
 */
export async function lookAt<Seen>(
  component: ComponentResource,
  { find, kubeconfig, without }: Look<Seen>,
): Promise<Seen | undefined> {
  if (kubeconfig === undefined && component.getProvider(anyKind) !== undefined) throw unknownCluster();
  const given = kubeconfig === undefined ? undefined : await knownValue(kubeconfig);
  if (kubeconfig !== undefined && given === undefined) return undefined;
  try {
    return await find(surroundings(given));
  } catch (thrown) {
    const error = RametError.from(thrown);
    if (!runtime.isDryRun() || !unseen.has(error.code)) throw refusal(error);
    void log.warn(`The cluster cannot be looked at, so ${without}: ${error.describe()}`, component);
    return undefined;
  }
}

function surroundings(kubeconfig: string | undefined): Surroundings {
  if (kubeconfig === undefined) return programSurroundings();
  const get = (key: string): string | undefined => (key === "kubernetes:kubeconfig" ? kubeconfig : undefined);
  return { configuration: { get }, environment: process.env };
}

/** What a provider was made with cannot be read from it. */
function unknownCluster(): Error {
  const what =
    "The objects go to the cluster of a Kubernetes provider of the program's own, and what is there decides which they are";
  const hint = "Give the provider's kubeconfig as the argument kubeconfig too";
  return refusal(new RametError("InvalidArgument", what, { hint }));
}

const anyKind = "kubernetes:core/v1:Namespace";
const unseen = new Set<ErrorCode>(["Unavailable", "Timeout", "NotFound", "Unauthorized"]);
