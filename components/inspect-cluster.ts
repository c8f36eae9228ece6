import { log, runtime, type ComponentResource, type Input } from "@pulumi/pulumi";
import type { ErrorCode } from "../src/base/error-codes.ts";
import { RametError } from "../src/base/errors.ts";
import { connectionOf, type ClusterEnvironment } from "../provider/handlers/open-cluster.ts";
import { knownValue } from "./await.ts";
import { programEnvironment } from "./placement.ts";
import { runError } from "./run-error.ts";

export interface ClusterInspection<Seen> {
  /** @throws RametError when the cluster cannot be reached */
  find: (env: ClusterEnvironment) => Promise<Seen>;
  /** The cluster's, as text; else the one is looked at that Pulumi's Kubernetes provider uses by itself. */
  kubeconfig: Input<string> | undefined;
  /** What a preview does that cannot look: a part of a sentence. */
  without: string;
}

/**
 * Looks at the cluster in which a component declares its objects, before it does; a preview goes on without the cluster.
 * @returns undefined in a preview, of a cluster that cannot be reached or is still to be made
 * @throws RunError when the cluster cannot be reached, or is not, or not known to be, the one that the objects go to
 */
export async function inspectCluster<Seen>(
  component: ComponentResource,
  { find, kubeconfig, without }: ClusterInspection<Seen>,
): Promise<Seen | undefined> {
  const hasProvider = component.getProvider(anyKind) !== undefined;
  if (kubeconfig === undefined && hasProvider) throw unknownCluster();
  const given = kubeconfig === undefined ? undefined : await knownValue(kubeconfig);
  if (kubeconfig !== undefined && given === undefined) return undefined;
  if (given !== undefined && !hasProvider) await requireSameCluster(surroundings(given));
  try {
    return await find(surroundings(given));
  } catch (thrown) {
    const error = RametError.from(thrown);
    if (!runtime.isDryRun() || !unseen.has(error.code)) throw runError(error);
    void log.warn(`The cluster cannot be looked at, so ${without}: ${error.describe()}`, component);
    return undefined;
  }
}

function surroundings(kubeconfig: string | undefined): ClusterEnvironment {
  if (kubeconfig === undefined) return programEnvironment();
  const get = (key: string): string | undefined => (key === "kubernetes:kubeconfig" ? kubeconfig : undefined);
  return { configuration: { get }, environment: process.env };
}

/** What a provider was made with cannot be read from it. */
function unknownCluster(): Error {
  const what =
    "The objects go to the cluster of a Kubernetes provider of the program's own, and what is there decides which they are";
  const hint = "Give the provider's kubeconfig as the argument kubeconfig too";
  return runError(new RametError("InvalidArgument", what, { hint }));
}

/** @throws RunError when objects that no provider is named for would go to another cluster than the one that is looked at */
async function requireSameCluster(looked: ClusterEnvironment): Promise<void> {
  const serverOf = (env: ClusterEnvironment): Promise<string | undefined> =>
    connectionOf(env).then(
      ({ server }) => server,
      () => undefined,
    );
  const [wanted, usual] = await Promise.all([serverOf(looked), serverOf(programEnvironment())]);
  // Where there is none, Pulumi's own provider says so.
  if (wanted === undefined || usual === undefined || wanted === usual) return;
  const what = `The argument kubeconfig is of ${wanted}, and the objects would go to ${usual}, which Pulumi uses where no provider is named`;
  const hint = "Name a Kubernetes provider with that kubeconfig in the component's options";
  throw runError(new RametError("InvalidArgument", what, { hint }));
}

const anyKind = "kubernetes:core/v1:Namespace";
const unseen = new Set<ErrorCode>(["Unavailable", "Timeout", "NotFound", "Unauthorized"]);
