import * as z from "zod";
import { crdNames, crdMark, renderCrdNamed } from "../api/kinds/crd.ts";
import { group } from "../api/schema/kind.ts";
import { Condition } from "../api/schema/metadata.ts";
import { RametError } from "../base/errors.ts";
import type { KubeClient } from "./kube-client.ts";
import { LeaseObject } from "./lease.ts";
import { AnyObject, keyOf, type KubeObject } from "./object.ts";
import type { ResourceClient } from "./resource-client.ts";
import { coreResources } from "./resource-ref.ts";
import { competingControllers, type KnownController } from "../api/names/other-controllers.ts";
import { controllersMode, systemNamespace } from "../api/names/system-names.ts";
import { covers } from "./apply.ts";

/** Evidence that another controller owns the kinds of Ramet. */
export interface OtherController {
  /** The controller's name in messages; undefined: unknown. */
  name?: string;
  /** `the Lease sandbox-system/f57b9a68.kruise.io, held by a_1`. */
  sign: string;
}

export interface FoundControllers {
  others: OtherController[];
  /** The reads that failed, and why: an older role lacks the right. */
  unread: RametError[];
}

/** Reads the cluster for controllers that would write the same objects as Ramet's. Changes nothing. */
export async function findOtherControllers(client: KubeClient, signal?: AbortSignal): Promise<FoundControllers> {
  const looks = [
    ...competingControllers.flatMap((known) => [
      ...known.leases.map((lease) => async () => {
        const held = await heldLeases(client, lease, signal);
        return held.map((one) => ({ name: known.name, sign: `the Lease ${keyOf(one)}, held by ${one.holder}` }));
      }),
      ...known.deployments.map((deployment) => () => runningDeployments(client, known, deployment, signal)),
    ]),
    () => otherCrds(client, signal),
  ];
  const found = await Promise.all(looks.map(allowed));
  return {
    others: found.flatMap((one) => (one instanceof RametError ? [] : one)),
    unread: found.filter((one) => one instanceof RametError),
  };
}

/**
 * The project whose controllers own the kinds of sandboxes in a cluster where Ramet is installed next to them; undefined: Ramet's
 * controllers own all kinds.
 */
export async function owningProject(client: KubeClient, signal: AbortSignal): Promise<string | undefined> {
  const at = { namespace: systemNamespace, name: controllersMode.configMap };
  try {
    return (await client.configMaps.find(at, { signal }))?.data[controllersMode.beside];
  } catch (error) {
    // The Role that allows everyone to read the ConfigMap is installed with it.
    if (RametError.from(error).code === "Forbidden") return undefined;
    throw error;
  }
}

/** An error that names what was found and the remedy. */
export function ownedByOthers(what: string, others: readonly OtherController[]): RametError {
  const signs = others.map(({ name, sign }) => (name === undefined ? sign : `${sign} (${name})`)).join("; ");
  return new RametError("OtherController", `${what}: another controller owns the kinds of ${group}: ${signs}`, {
    hint: 'To add named snapshots to it, use --beside=openkruise (mode: "beside" in Pulumi); to replace it, remove it and its CRDs first',
  });
}

export interface HeldLease {
  namespace: string;
  name: string;
  holder: string;
}

/** The Leases of that name, in all namespaces, that a process renews. @throws RametError `Forbidden` */
export async function heldLeases(client: KubeClient, lease: string, signal?: AbortSignal): Promise<HeldLease[]> {
  const leases = client.resource(coreResources.leases, (value) => LeaseObject.parse(value));
  const now = client.clock.now().getTime();
  return (await named(leases, lease, signal)).flatMap(({ metadata: { namespace = "", name }, spec }) => {
    const { holderIdentity: holder, renewTime, leaseDurationSeconds } = spec;
    if (!holder || !renewTime) return [];
    const validMilliseconds = Math.max(leastValidMilliseconds, (leaseDurationSeconds ?? 0) * 1000);
    if (Date.parse(renewTime) < now - validMilliseconds) return [];
    return [{ namespace, name, holder }];
  });
}

async function runningDeployments(
  client: KubeClient,
  { name }: KnownController,
  deployment: KnownController["deployments"][number],
  signal: AbortSignal | undefined,
): Promise<OtherController[]> {
  const resource = client.resource(coreResources.deployments, (value) => DeploymentObject.parse(value));
  const { namespaces } = deployment;
  return (await named(resource, deployment.name, signal))
    .filter(({ spec }) => spec.replicas !== 0)
    .filter(({ metadata }) => namespaces?.includes(metadata.namespace ?? "") ?? true)
    .map(({ metadata }) => ({ name, sign: `the Deployment ${keyOf(metadata)}` }));
}

async function otherCrds(client: KubeClient, signal: AbortSignal | undefined): Promise<OtherController[]> {
  const crds = client.resource(coreResources.crds, (value) => InstalledCrd.parse(value));
  const names = crdNames().filter((crd) => crd.group === group);
  const found = await Promise.all(names.map(({ name }) => crds.find({ name }, { signal })));
  return found
    .filter((crd) => crd !== undefined)
    .filter((crd) => crdOrigin(crd) === "other")
    .map(({ metadata }) => otherCrd(metadata.name));
}

export function otherCrd(name: string): OtherController {
  return { sign: `the CustomResourceDefinition ${name}, which Ramet did not make` };
}

/** In all namespaces. A role can allow such a list for single names. Empty if the API server does not serve the resource. */
async function named<T extends KubeObject>(
  resource: ResourceClient<T>,
  name: string,
  signal: AbortSignal | undefined,
): Promise<T[]> {
  try {
    return (await resource.list({ fieldSelector: `metadata.name=${name}`, signal })).items;
  } catch (error) {
    if (RametError.from(error).code === "NotFound") return [];
    throw error;
  }
}

async function allowed(look: () => Promise<OtherController[]>): Promise<OtherController[] | RametError> {
  try {
    return await look();
  } catch (thrown) {
    const error = RametError.from(thrown);
    if (error.code !== "Forbidden") throw error;
    return error;
  }
}

/** Tolerates clocks that differ, and an API server that is slow to accept a renewal. */
const leastValidMilliseconds = 60_000;

const DeploymentObject = AnyObject.extend({ spec: z.looseObject({ replicas: z.number().optional() }) });

/** A CRD in the API server. Its schemas are compared as they are. */
export const InstalledCrd = AnyObject.extend({
  spec: z.unknown(),
  // Null until the API server has looked at the CRD.
  status: z
    .looseObject({
      conditions: z
        .array(Condition)
        .nullish()
        .transform((list) => list ?? []),
    })
    .optional(),
});
export type InstalledCrd = z.infer<typeof InstalledCrd>;

/**
 * Who made a CRD. `ramet`: Ramet may change it. `compatible`: it is another project's, but has every field that this version needs,
 * so it is only read. `other`: Ramet's controllers cannot work with it.
 */
type CrdOrigin = "ramet" | "compatible" | "other";

export function crdOrigin(crd: InstalledCrd): CrdOrigin {
  if (crd.metadata.annotations?.[crdMark] !== undefined) return "ramet";
  const rendered = renderCrdNamed(crd.metadata.name);
  if (rendered === undefined) return "ramet";
  return covers(crd, { spec: rendered.spec }) ? "compatible" : "other";
}
