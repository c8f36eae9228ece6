import { renderCrds } from "../../../src/api/crd.ts";
import { controllerName, credentialsSecret } from "../../../src/api/system-names.ts";
import { covers } from "../../../src/kube/apply.ts";
import type { KubeClient } from "../../../src/kube/kube-client.ts";
import { coreResources } from "../../../src/kube/resource-ref.ts";
import type { HandlerParts } from "../handler.ts";
import { withCluster } from "../open-cluster.ts";

/** What there is of Ramet's runtime in a cluster. */
export interface RuntimeFacts {
  /** Whether controllers have run here, which leaves the key of their cells, or are about to. */
  hasController: boolean;
  /** Who declares the controllers' Deployment, where that is a program; absent: nobody, or something else. */
  declaredBy?: string;
  /** The CRDs that are not there. */
  missingCrds: string[];
  /** The CRDs that are there and lack something that this version needs. */
  otherCrds: string[];
}

/** On the Deployment: which resource of which stack declares it. */
export const declaredByAnnotation = "ramet.dev/pulumi-resource";

/** Looks, and changes nothing. @throws RametError when the cluster cannot be reached or may not be read */
export function findRuntime(
  around: Pick<HandlerParts, "configuration" | "environment">,
  namespace: string,
): Promise<RuntimeFacts> {
  return withCluster(around, async (client) => {
    const signal = AbortSignal.timeout(lookMilliseconds);
    const secret = await client
      .resource(coreResources.secrets)
      .find({ namespace, name: credentialsSecret }, { signal });
    // A cluster on one machine serves no Deployments.
    const deployment = await client.resource(deployments).find({ namespace, name: controllerName }, { signal });
    const declaredBy = deployment?.metadata.annotations?.[declaredByAnnotation];
    return {
      hasController: secret !== undefined || deployment !== undefined,
      ...(declaredBy !== undefined && { declaredBy }),
      ...(await crdsIn(client, signal)),
    };
  });
}

async function crdsIn(
  client: KubeClient,
  signal: AbortSignal,
): Promise<Pick<RuntimeFacts, "missingCrds" | "otherCrds">> {
  const crds = client.resource(coreResources.crds);
  const found = await Promise.all(
    renderCrds().map(async (wanted) => {
      const { name } = wanted.metadata;
      const there = await crds.find({ name }, { signal });
      const fits = there === undefined || covers(there, { spec: wanted.spec });
      return { name, isThere: there !== undefined, fits };
    }),
  );
  return {
    missingCrds: found.filter(({ isThere }) => !isThere).map(({ name }) => name),
    otherCrds: found.filter(({ fits }) => !fits).map(({ name }) => name),
  };
}

const deployments = {
  group: "apps",
  version: "v1",
  plural: "deployments",
  kind: "Deployment",
  namespaced: true,
} as const;
const lookMilliseconds = 10_000;
