import * as z from "zod";
import { renderCrds } from "../../../src/api/kinds/crd.ts";
import {
  controllerLabels,
  controllerName,
  controllersLease,
  localNodeLabels,
  systemNamespace,
} from "../../../src/api/names/system-names.ts";
import { delay } from "../../../src/base/clock.ts";
import { defined } from "../../../src/base/defined.ts";
import { RametError } from "../../../src/base/errors.ts";
import { covers } from "../../../src/kube/apply.ts";
import type { KubeClient } from "../../../src/kube/kube-client.ts";
import { LeaseObject } from "../../../src/kube/lease.ts";
import { keyOf, type KubeObject, ObjectMeta } from "../../../src/kube/object.ts";
import {
  crdOrigin,
  InstalledCrd,
  findOtherControllers,
  type OtherController,
} from "../../../src/kube/other-controllers.ts";
import { clusterRef, coreResources, type ResourceRef } from "../../../src/kube/resource-ref.ts";
import { readCluster, type ClusterEnvironment, withCluster } from "../open-cluster.ts";
import { declaredBy } from "../owner.ts";
import type { Finding } from "../../../src/preflight/finding.ts";
import { checkTheCluster } from "../../../src/preflight/preflight.ts";
import { planUpgrade, type UpgradeStep, readUpgrade } from "../../../src/preflight/plan-upgrade.ts";

/** The parts of Ramet's runtime that exist in a cluster. */
export interface RuntimeFacts {
  /** Evidence that controllers run or will run: `the Deployment ramet-system/ramet-controller`. */
  sign?: string;
  /** The program that declares the controllers, if any. */
  declared?: Declared;
  missingCrds: string[];
  /** CRDs that lack something that this version needs. */
  otherCrds: string[];
  /** CRDs of another project with all that this version needs. They are only read. */
  readOnlyCrds: string[];
  /** Controllers of other projects that own the same kinds. */
  otherControllers: OtherController[];
}

export interface Declared {
  /** The declaring resource and its stack. */
  by: string;
  /** Arguments for `kubectl` that name the annotated object. */
  object: string;
}

/** Reads the cluster and changes nothing. @throws RametError if the cluster is unreachable or reading is forbidden */
export async function findRuntime(env: ClusterEnvironment): Promise<RuntimeFacts> {
  const facts = await readCluster(env, async (client, signal): Promise<RuntimeFacts> => {
    const deployment = await controllersDeployment(client, signal);
    const sign =
      deployment === undefined ? await machineOf(client, signal) : `the Deployment ${keyOf(deployment.metadata)}`;
    const declared = await declaredOf(client, deployment, signal);
    return {
      ...defined({ sign, declared }),
      ...(await crdsIn(client, signal)),
      otherControllers: await othersIn(client, signal),
    };
  });
  const holder = facts.sign === undefined ? await liveHolder(env) : undefined;
  return holder === undefined ? facts : { ...facts, sign: `the holder of the Lease ${keyOf(leaseAt)}, ${holder}` };
}

/** In any namespace. A cluster on one machine does not serve Deployments. */
async function controllersDeployment(client: KubeClient, signal: AbortSignal): Promise<KubeObject | undefined> {
  const [deployment] = await listed(client, coreResources.deployments, {
    labelSelector: selectorOf(controllerLabels),
    signal,
  });
  return deployment;
}

/** A cluster on one machine, which runs its own controllers. */
async function machineOf(client: KubeClient, signal: AbortSignal): Promise<string | undefined> {
  const [node] = await listed(client, coreResources.nodes, { labelSelector: selectorOf(localNodeLabels), signal });
  return node && `the cluster on one machine with the node ${node.metadata.name}`;
}

/** From the Deployment or, if it was deleted, from the ClusterRole. */
async function declaredOf(
  client: KubeClient,
  deployment: KubeObject | undefined,
  signal: AbortSignal,
): Promise<Declared | undefined> {
  const role = await client.resource(clusterRoles).find({ name: controllerName }, { signal });
  const marked = [deployment, role].find((object) => object !== undefined && declaredBy(object) !== undefined);
  const by = marked && declaredBy(marked);
  if (marked === undefined || by === undefined) return undefined;
  const { namespace, name } = marked.metadata;
  const kind = marked === role ? "clusterrole" : "deployment";
  return { by, object: `${kind} ${name}${namespace === undefined ? "" : ` --namespace ${namespace}`}` };
}

/** @throws RametError `Forbidden` if a controller could be there unseen */
async function othersIn(client: KubeClient, signal: AbortSignal): Promise<OtherController[]> {
  const { others, unread } = await findOtherControllers(client, signal);
  const [first] = unread;
  if (first !== undefined) throw first;
  return others;
}

async function crdsIn(
  client: KubeClient,
  signal: AbortSignal,
): Promise<Pick<RuntimeFacts, "missingCrds" | "otherCrds" | "readOnlyCrds">> {
  const crds = client.resource(coreResources.crds, (value) => InstalledCrd.parse(value));
  const found = await Promise.all(
    renderCrds().map(async (desired) => {
      const { name } = desired.metadata;
      const there = await crds.find({ name }, { signal });
      const fits = there === undefined || covers(there, { spec: desired.spec });
      const isReadOnly = there !== undefined && crdOrigin(there) === "compatible";
      return { name, isThere: there !== undefined, fits, isReadOnly };
    }),
  );
  return {
    missingCrds: found.filter(({ isThere }) => !isThere).map(({ name }) => name),
    otherCrds: found.filter(({ fits }) => !fits).map(({ name }) => name),
    readOnlyCrds: found.filter(({ isReadOnly }) => isReadOnly).map(({ name }) => name),
  };
}

/** Empty if the API server does not serve the resource. */
async function listed(
  client: KubeClient,
  ref: ResourceRef,
  options: { labelSelector: string; signal: AbortSignal },
): Promise<KubeObject[]> {
  try {
    return (await client.resource(ref).list(options)).items;
  } catch (error) {
    if (RametError.from(error).code === "NotFound") return [];
    throw error;
  }
}

function selectorOf(labels: Record<string, string>): string {
  return Object.entries(labels)
    .map(([label, value]) => `${label}=${value}`)
    .join(",");
}

const clusterRoles = clusterRef("rbac.authorization.k8s.io/v1", "ClusterRole");

const leaseAt = { namespace: systemNamespace, name: controllersLease };

/**
 * The holder that renews the lease of Ramet's controllers. The check takes up to `watchMilliseconds`: a killed holder
 * leaves a lease that looks valid, so a renewal must be observed.
 *
 * @throws RametError if the cluster is unreachable or reading is forbidden
 */
function liveHolder(env: ClusterEnvironment): Promise<string | undefined> {
  return readCluster(
    env,
    async (client, signal) => {
      const first = await read(client, signal);
      if (first === undefined || first.renewed < client.clock.now().getTime() - staleMilliseconds) return undefined;
      for (let waited = 0; waited < watchMilliseconds; waited += pauseMilliseconds) {
        await delay(client.clock, pauseMilliseconds, signal);
        const seen = await read(client, signal);
        if (seen?.renewed !== first.renewed) return seen?.holder;
      }
      return undefined;
    },
    { withinMilliseconds: watchMilliseconds + 10_000 },
  );
}

/** Undefined if the lease has no holder. */
async function read(client: KubeClient, signal: AbortSignal): Promise<{ holder: string; renewed: number } | undefined> {
  const leases = client.resource(coreResources.leases, (value) => LeaseObject.parse(value));
  const { holderIdentity: holder, renewTime } = (await leases.find(leaseAt, { signal }))?.spec ?? {};
  return holder && renewTime ? { holder, renewed: Date.parse(renewTime) } : undefined;
}

/** A lease that is older counts as abandoned. This tolerates smaller clock differences. */
const staleMilliseconds = 60_000;
/** A holder renews its lease every 5 s and gives it up after 10 s without success. */
const watchMilliseconds = 12_000;
const pauseMilliseconds = 500;

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

export interface UpgradeEffects {
  before: string;
  /** As `ramet upgrade --plan` lists them. */
  steps: UpgradeStep[];
}

/**
 * The effects of a program's cell image on the snapshots, sets and sandboxes of the cluster. Undefined: nothing, or it cannot be
 * known, because the program may not read all namespaces.
 */
export async function upgradeEffects(env: ClusterEnvironment, cellImage: string): Promise<UpgradeEffects | undefined> {
  try {
    return await readCluster(env, async (client, signal) => {
      const before = await runningCellImage(client, signal);
      if (before === undefined || before === cellImage) return undefined;
      const steps = planUpgrade({ ...(await readUpgrade(client, signal)), cellImage, cellEngine: undefined });
      return steps.length === 0 ? undefined : { before, steps };
    });
  } catch (error) {
    // A preview must not fail for what it only reports.
    if (RametError.from(error).code === "Internal") throw error;
    return undefined;
  }
}

async function runningCellImage(client: KubeClient, signal: AbortSignal): Promise<string | undefined> {
  const resource = client.resource(coreResources.deployments, (value) => Deployment.parse(value));
  const found = await resource.find({ namespace: systemNamespace, name: controllerName }, { signal });
  const args = found?.spec.template.spec.containers[0]?.args ?? [];
  const at = args.indexOf("--cell-image");
  return at < 0 ? undefined : args[at + 1];
}

const Deployment = z.looseObject({
  metadata: ObjectMeta,
  spec: z.object({
    template: z.object({
      spec: z.object({ containers: z.array(z.object({ args: z.array(z.string()).optional() })) }),
    }),
  }),
});
