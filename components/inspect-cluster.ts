import { log, runtime, type ComponentResource, type Input } from "@pulumi/pulumi";
import type { ErrorCode } from "../src/base/error-codes.ts";
import { RametError } from "../src/base/errors.ts";
import { connectionOf, type ClusterEnvironment } from "../provider/handlers/open-cluster.ts";
import { knownValue } from "./await.ts";
import { programEnvironment } from "./placement.ts";
import { runError } from "./run-error.ts";
import { type UpgradeEffects, upgradeEffects } from "../provider/handlers/runtime/find-runtime.ts";

export interface ClusterInspection<Seen> {
  /** @throws RametError when the cluster cannot be reached */
  find: (env: ClusterEnvironment) => Promise<Seen>;
  /** The kubeconfig as text. If undefined, the cluster that Pulumi's Kubernetes provider uses by default is read. */
  kubeconfig: Input<string> | undefined;
  /** The assumption of a preview that cannot read the cluster: a clause for the warning. */
  assumption: string;
}

/**
 * Reads the cluster before a component declares objects in it; a preview continues without the cluster.
 * @returns undefined in a preview of a cluster that is unreachable or not created yet, and without Pulumi's engine
 * @throws RunError if the cluster is unreachable, or may not be the one in which the objects are declared
 */
export async function inspectCluster<Seen>(
  component: ComponentResource,
  { find, kubeconfig, assumption }: ClusterInspection<Seen>,
): Promise<Seen | undefined> {
  // A test with `setMocks` declares nothing in a cluster.
  if (runtime.getEngine() === undefined) return undefined;
  const hasProvider = component.getProvider(anyKind) !== undefined;
  if (kubeconfig === undefined && hasProvider) throw unknownCluster();
  const given = kubeconfig === undefined ? undefined : await knownValue(kubeconfig);
  if (kubeconfig !== undefined && given === undefined) return undefined;
  if (given !== undefined && !hasProvider) await requireSameCluster(environmentFor(given));
  try {
    return await find(environmentFor(given));
  } catch (thrown) {
    const error = RametError.from(thrown);
    if (!runtime.isDryRun() || !unseen.has(error.code)) throw runError(error);
    void log.warn(`Cannot read the cluster, so ${assumption}: ${error.describe()}`, component);
    return undefined;
  }
}

function environmentFor(kubeconfig: string | undefined): ClusterEnvironment {
  if (kubeconfig === undefined) return programEnvironment();
  const get = (key: string): string | undefined => (key === "kubernetes:kubeconfig" ? kubeconfig : undefined);
  return { configuration: { get }, environment: process.env };
}

/** The kubeconfig of a provider cannot be read from the provider. */
function unknownCluster(): Error {
  const what =
    "The component has its own Kubernetes provider, so its cluster is unknown; which objects are declared depends on that cluster";
  const hint = "Pass the provider's kubeconfig also as the argument kubeconfig";
  return runError(new RametError("InvalidArgument", what, { hint }));
}

/** @throws RunError if the default provider would declare the objects in another cluster than the one that is read */
async function requireSameCluster(looked: ClusterEnvironment): Promise<void> {
  const serverOf = (env: ClusterEnvironment): Promise<string | undefined> =>
    connectionOf(env).then(
      ({ server }) => server,
      () => undefined,
    );
  const [wanted, usual] = await Promise.all([serverOf(looked), serverOf(programEnvironment())]);
  // Without a kubeconfig, Pulumi's provider reports the error.
  if (wanted === undefined || usual === undefined || wanted === usual) return;
  const what = `The argument kubeconfig points to ${wanted}, but without a provider Pulumi would declare the objects in ${usual}`;
  const hint = "Set a Kubernetes provider with that kubeconfig in the component's options";
  throw runError(new RametError("InvalidArgument", what, { hint }));
}

const anyKind = "kubernetes:core/v1:Namespace";
const unseen = new Set<ErrorCode>(["Unavailable", "Timeout", "NotFound", "Unauthorized"]);

/** Lists in a preview what another cell image does to the snapshots, sets and sandboxes of the cluster. */
export async function previewUpgrade(
  component: ComponentResource,
  { cellImage, kubeconfig }: { cellImage?: Input<string>; kubeconfig?: Input<string> },
): Promise<void> {
  const image = cellImage === undefined ? undefined : await knownValue(cellImage);
  if (image === undefined) return;
  const effects = await inspectCluster(component, {
    find: (env) => upgradeEffects(env, image),
    kubeconfig,
    assumption: "it is unknown what another cell image does",
  });
  if (effects !== undefined) void log.info(upgradeText(effects, image), component);
}

/** One line for each effect. Long lists are cut, because a preview shows them to a reviewer. */
function upgradeText({ before, steps }: UpgradeEffects, image: string): string {
  const lines = steps.slice(0, mostLines).map(({ kind, namespace, name, what }) => {
    return `  ${kind} ${namespace === undefined ? name : `${namespace}/${name}`}: ${what}`;
  });
  const left = steps.length - lines.length;
  const more = left > 0 ? [`  and ${left} more; list them with: ramet upgrade --plan --cell-image ${image}`] : [];
  return [`The cell image changes from ${before} to ${image}:`, ...lines, ...more].join("\n");
}

const mostLines = 30;
