import { RametError } from "../../src/base/errors.ts";
import { coreResources } from "../../src/kube/resource-ref.ts";
import { InitFailed } from "./follow.ts";
import { type HandlerContext, notFound, type ResourceHandler, type Values } from "./handler.ts";
import { type ClusterEnvironment, readCluster } from "./open-cluster.ts";

/** Reads the identity of the cluster. Undefined if it cannot be read. */
export type ReadIdentity = () => Promise<string | undefined>;

/** The UID of the namespace `kube-system`, which lives as long as its cluster. It is read once. */
export function clusterIdentity(env: ClusterEnvironment): ReadIdentity {
  let known: Promise<string | undefined> | undefined;
  return () => {
    known ??= readCluster(
      env,
      async (client, signal) =>
        (await client.resource(coreResources.namespaces).get({ name: "kube-system" }, { signal })).metadata.uid,
      { withinMilliseconds: 5_000 },
    ).catch(() => {
      // A cluster that cannot be reached now may be reachable later. Without the right to read it, nothing is compared.
      known = undefined;
      return undefined;
    });
    return known;
  };
}

/**
 * Records in the state in which cluster an object is, and refuses to continue in another one: there, the object would seem to be
 * unchanged or deleted, and the one that exists would be left behind.
 */
export function inKnownCluster(
  handler: ResourceHandler,
  context: Pick<HandlerContext, "configuration" | "log">,
  identity: ReadIdentity,
): ResourceHandler {
  const isForgotten = ({ cluster }: Values): boolean =>
    cluster !== undefined && cluster === context.configuration.get("ramet:forgetCluster");
  const requireSame = async (state: Values): Promise<void> => {
    const { cluster: known } = state;
    if (typeof known !== "string") return;
    const current = await identity();
    if (current !== undefined && current !== known) throw otherCluster(state, current);
  };
  /** Without the right to read it, the cluster of the state is kept. */
  const recorded = async (outs: Values, { cluster: before }: Values = {}): Promise<Values> => {
    const cluster = (await identity()) ?? before;
    return cluster === undefined ? outs : { ...outs, cluster };
  };
  const recording = <T>(work: Promise<T>, olds?: Values): Promise<T> =>
    work.catch(async (error: unknown) => {
      if (error instanceof InitFailed) Object.assign(error.properties, await recorded({}, olds));
      throw error;
    });
  return {
    check: (olds, news) => handler.check(olds, news),
    diff: async (id, olds, news) => {
      if (isForgotten(olds)) return { changes: true, replaces: ["cluster"], deleteBeforeReplace: false };
      await requireSame(olds);
      return handler.diff(id, olds, news);
    },
    create: async (inputs) => {
      const { id, outs } = await recording(handler.create(inputs));
      return { id, outs: await recorded(outs) };
    },
    read: async (id, props) => {
      if (isForgotten(props)) return notFound;
      await requireSame(props);
      const found = await handler.read(id, props);
      return found.id === "" ? found : { ...found, props: await recorded(found.props, props) };
    },
    update: async (id, olds, news) => {
      await requireSame(olds);
      const { outs } = await recording(handler.update(id, olds, news), olds);
      return { outs: await recorded(outs, olds) };
    },
    delete: async (id, props) => {
      if (isForgotten(props)) {
        context.log(`${id}: not deleted, because its cluster is forgotten`);
        return;
      }
      await requireSame(props);
      await handler.delete(id, props);
    },
  };
}

function otherCluster({ name, cluster }: Values, current: string): RametError {
  const what = `${String(name)} is in another cluster: its state is of the cluster ${String(cluster)}, and this is ${current}`;
  return new RametError("Conflict", what, {
    hint: `Select that cluster, or use another stack; if it no longer exists, run: pulumi config set ramet:forgetCluster ${String(cluster)}`,
  });
}
