import * as z from "zod";
import { crdNames } from "../api/kinds/crd.ts";
import { controllersLease, controllersMode, systemNamespace } from "../api/names/system-names.ts";
import { parseStoreReport, type StoreReport, storeReportMap } from "../api/store/store-report.ts";
import { allOf } from "../base/all-of.ts";
import { defined } from "../base/defined.ts";
import { RametError } from "../base/errors.ts";
import { within } from "../base/within.ts";
import type { KubeClient } from "../kube/kube-client.ts";
import { LeaseObject } from "../kube/lease.ts";
import { findOtherControllers, owningProject } from "../kube/other-controllers.ts";
import { ObjectMeta } from "../kube/object.ts";
import { coreResources } from "../kube/resource-ref.ts";
import {
  type ClusterFacts,
  ClusterNode,
  type RenewedLease,
  type Right,
  type Seen,
  type StoredSnapshot,
} from "./cluster-facts.ts";
import { notAllowed } from "./finding.ts";
import { readSnapshots, readVolumeClasses } from "./read-snapshots.ts";

export interface PreflightOptions {
  /** Where the user works. */
  namespace: string;
  /** Beside which controllers Ramet is to be installed. @default what the installation in the cluster says */
  beside?: string | undefined;
  /** The limit of each read. @default 1500, so that an answer takes at most 2 s */
  readMilliseconds?: number;
  /** The snapshots that the storage has, to find those that the cluster does not know. @default none is compared */
  storedSnapshots?: readonly StoredSnapshot[] | undefined;
  signal?: AbortSignal | undefined;
}

/** Reads all facts concurrently, each within its time. @throws RametError if the API server cannot be reached at all */
export async function readFacts(
  client: KubeClient,
  { namespace, beside, readMilliseconds = defaultReadMilliseconds, storedSnapshots, signal }: PreflightOptions,
): Promise<ClusterFacts> {
  const see = <T>(what: string, read: (signal: AbortSignal) => Promise<T>): Promise<Seen<T>> =>
    seen(client, { what, readMilliseconds, signal }, read);
  const nodes = client.resource(coreResources.nodes, (value) => ClusterNode.parse(value));
  const leases = client.resource(coreResources.leases, (value) => LeaseObject.parse(value));
  const facts = await allOf({
    beside: see(
      `the ConfigMap ${controllersMode.configMap}`,
      async (inTime) => beside ?? owningProject(client, inTime),
    ),
    version: see("the version", (inTime) => client.version(inTime)),
    serverTime: see("the time", (inTime) => client.serverTime(inTime)),
    nodes: see("nodes", async (inTime) => (await nodes.list({ signal: inTime, pageSize: mostNodes })).items),
    nodeLeases: see("leases in kube-node-lease", async (inTime) =>
      (await leases.list({ namespace: "kube-node-lease", signal: inTime })).items.flatMap(renewedLease),
    ),
    controllers: see(`leases in ${systemNamespace}`, async (inTime) => {
      const lease = await leases.find({ namespace: systemNamespace, name: controllersLease }, { signal: inTime });
      return lease && (renewedLease(lease)[0] ?? releasedLease(lease));
    }),
    crds: see("CRDs", (inTime) => readCrds(client, inTime)),
    others: see("other controllers", async (inTime) => {
      const { others: found, unread } = await findOtherControllers(client, inTime);
      if (found.length === 0 && unread[0] !== undefined) throw unread[0];
      return found;
    }),
    podSecurity: see("the namespace", (inTime) => readPodSecurity(client, namespace, inTime)),
    store: see(`the ConfigMap ${storeReportMap.name}`, (inTime) => readStoreReport(client, inTime)),
    missingRights: see("your rights", (inTime) => readMissingRights(client, namespace, inTime)),
    volumeClasses: see("the classes of volumes", (inTime) => readVolumeClasses(client, inTime)),
    snapshots: readSnapshots(client, { namespace, stored: storedSnapshots, see }),
  });
  // Without any response the cluster is unreachable, which is one error and not ten findings.
  if ("unknown" in facts.version && "unknown" in facts.serverTime) await client.version(signal);
  return { now: client.clock.now(), namespace, ...facts };
}

const mostNodes = 500;

/** Together with the start of the command, this leaves an answer within 2 s. */
const defaultReadMilliseconds = 1_500;

async function seen<T>(
  client: KubeClient,
  { what, readMilliseconds, signal }: { what: string; readMilliseconds: number; signal: AbortSignal | undefined },
  read: (signal: AbortSignal) => Promise<T>,
): Promise<Seen<T>> {
  try {
    return {
      value: await within(
        { clock: client.clock, milliseconds: readMilliseconds, what: `Reading ${what}`, signal },
        read,
      ),
    };
  } catch (thrown) {
    if (signal?.aborted === true) throw thrown;
    const { code, message } = RametError.from(thrown);
    return { unknown: code === "Forbidden" ? `${notAllowed} to read ${what}` : message };
  }
}

const DataMap = z.looseObject({ metadata: ObjectMeta, data: z.record(z.string(), z.string()).default({}) });

async function readStoreReport(client: KubeClient, signal: AbortSignal): Promise<StoreReport | undefined> {
  const maps = client.resource(coreResources.configMaps, (value) => DataMap.parse(value));
  return parseStoreReport((await maps.find(storeReportMap, { signal }))?.data);
}

const ManagedFields = z.array(z.looseObject({ time: z.string().nullish() })).catch([]);

function renewedLease({ metadata, spec }: LeaseObject): RenewedLease[] {
  const { holderIdentity, renewTime, leaseDurationSeconds } = spec;
  if (renewTime == null) return [];
  const times = ManagedFields.parse((metadata as { managedFields?: unknown }).managedFields).flatMap(
    ({ time }) => time ?? [],
  );
  return [
    {
      name: metadata.name,
      holder: holderIdentity ?? "",
      renewTime,
      durationSeconds: leaseDurationSeconds ?? 40,
      writtenAt: times.sort().at(-1),
    },
  ];
}

function releasedLease({ metadata }: LeaseObject): RenewedLease {
  return {
    name: metadata.name,
    holder: "",
    renewTime: metadata.creationTimestamp ?? "",
    durationSeconds: 15,
    writtenAt: undefined,
  };
}

async function readCrds(client: KubeClient, signal: AbortSignal): Promise<{ found: string[]; missing: string[] }> {
  const crds = client.resource(coreResources.crds);
  const names = crdNames().map(({ name }) => name);
  const all = await Promise.all(names.map((name) => crds.find({ name }, { signal })));
  const found = all.flatMap((crd) => crd?.metadata.name ?? []);
  return { found, missing: names.filter((name) => !found.includes(name)) };
}

async function readPodSecurity(
  client: KubeClient,
  name: string,
  signal: AbortSignal,
): Promise<string | undefined | null> {
  const namespace = await client.resource(coreResources.namespaces).find({ name }, { signal });
  return namespace === undefined ? null : namespace.metadata.labels?.["pod-security.kubernetes.io/enforce"];
}

const Review = z.looseObject({ status: z.looseObject({ allowed: z.boolean() }) });

/** Every authenticated user may ask about their own rights. */
async function readMissingRights(client: KubeClient, namespace: string, signal: AbortSignal): Promise<Right[]> {
  const answers = await Promise.all(
    reviewedRights().map(async (right) => {
      const { verb, group, resource, subresource, namespaced } = right;
      const resourceAttributes = {
        verb,
        group,
        resource,
        ...defined({ subresource }),
        ...(namespaced && { namespace }),
      };
      const response = await client.request({
        verb: "create",
        resource: coreResources.selfSubjectAccessReviews,
        at: {},
        body: { apiVersion: "authorization.k8s.io/v1", kind: "SelfSubjectAccessReview", spec: { resourceAttributes } },
        repeatable: true,
        signal,
      });
      return Review.parse(response).status.allowed ? [] : [right];
    }),
  );
  return answers.flat();
}

const admission = "admissionregistration.k8s.io";
const rbac = "rbac.authorization.k8s.io";

/** The rights to write an installation. */
const installing: readonly Right[] = [
  ["apiextensions.k8s.io", "customresourcedefinitions", false],
  [rbac, "clusterroles", false],
  [rbac, "clusterrolebindings", false],
  [admission, "validatingadmissionpolicies", false],
  ["apps", "deployments", true],
].map(([group, resource, namespaced]) => ({
  verb: "create",
  group: group as string,
  resource: resource as string,
  namespaced: namespaced as boolean,
  purpose: "install Ramet",
}));

/** The rights to use Ramet's kinds, and to read for explanations. */
function using(): Right[] {
  const kinds = crdNames().map(({ group, plural }): Right => {
    return { verb: "create", group, resource: plural, namespaced: true, purpose: "use Ramet" };
  });
  const reads = (["pods", "events"] as const).map((resource): Right => ({
    verb: "list",
    group: resource === "events" ? "events.k8s.io" : "",
    resource,
    namespaced: true,
    purpose: "explain states",
  }));
  return [...kinds, ...reads];
}

/** The rights that are reviewed. */
function reviewedRights(): readonly Right[] {
  return [...installing, ...using()];
}
