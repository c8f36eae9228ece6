import * as z from "zod";
import { checkpointKind } from "../api/kinds/checkpoint.ts";
import { crdNames } from "../api/kinds/crd.ts";
import { labels } from "../api/names/labels.ts";
import { Pod, pullReasons } from "../api/schema/pod.ts";
import { controllersLease, controllersMode, isLocalNode, systemNamespace } from "../api/names/system-names.ts";
import { parseStoreReport, type StoreReport, storeReportMap } from "../api/store/store-report.ts";
import { defined } from "../base/defined.ts";
import { unlessCode } from "../base/errors.ts";
import type { KubeClient } from "../kube/kube-client.ts";
import { LeaseObject } from "../kube/lease.ts";
import { findOtherControllers, owningProject } from "../kube/other-controllers.ts";
import { ObjectMeta } from "../kube/object.ts";
import { coreResources } from "../kube/resource-ref.ts";
import {
  type ClusterFacts,
  ClusterNode,
  DisruptionBudget,
  type RenewedLease,
  type Right,
  type StoredSnapshot,
  type UnpulledCell,
} from "./cluster-facts.ts";
import { isRunning } from "./plan-drain.ts";
import { readSnapshots, readVolumeClasses } from "./read-snapshots.ts";
import { see, type Seen, allOf } from "./finding.ts";

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
  const { clock } = client;
  const seen = <T>(what: string, read: (signal: AbortSignal) => Promise<T>): Promise<Seen<T>> =>
    see({ what, milliseconds: readMilliseconds, clock, signal }, read);
  const nodes = client.resource(coreResources.nodes, (value) => ClusterNode.parse(value));
  const leases = client.resource(coreResources.leases, (value) => LeaseObject.parse(value));
  const facts = await allOf({
    beside: seen(
      `the ConfigMap ${controllersMode.configMap}`,
      async (inTime) => beside ?? owningProject(client, inTime),
    ),
    version: seen("the version", (inTime) => client.version(inTime)),
    serverTime: seen("the time", (inTime) => client.serverTime(inTime)),
    nodes: seen("nodes", async (inTime) => (await nodes.list({ signal: inTime, pageSize: mostNodes })).items),
    nodeLeases: seen("leases in kube-node-lease", async (inTime) =>
      (await leases.list({ namespace: "kube-node-lease", signal: inTime })).items
        .filter(({ spec }) => spec.renewTime != null)
        .map(renewedLease),
    ),
    controllers: seen(`leases in ${systemNamespace}`, async (inTime) => {
      const lease = await leases.find({ namespace: systemNamespace, name: controllersLease }, { signal: inTime });
      return lease && renewedLease(lease);
    }),
    crds: seen("CRDs", (inTime) => readCrds(client, inTime)),
    others: seen("leases, Deployments and CRDs of other controllers", async (inTime) => {
      const { others: found, unread } = await findOtherControllers(client, inTime);
      if (found.length === 0 && unread[0] !== undefined) throw unread[0];
      return found;
    }),
    podSecurity: seen("the namespace", (inTime) => readPodSecurity(client, namespace, inTime)),
    store: seen(`the ConfigMap ${storeReportMap.name}`, (inTime) => readStoreReport(client, inTime)),
    missingRights: seen("your rights", (inTime) => readMissingRights(client, namespace, inTime)),
    unpulledCells: seen("the Pods of sandboxes", (inTime) => readUnpulledCells(client, inTime)),
    cells: seen("the Pods of sandboxes", async (inTime) => (await listCells(client, inTime)).filter(isRunning)),
    captures: seen("checkpoints", async (inTime) => (await client.of(checkpointKind).list({ signal: inTime })).items),
    shutdowns: seen("the settings of kubelets", async (inTime) => {
      const { items } = await nodes.list({ signal: inTime, pageSize: mostNodes });
      const names = items.filter(({ metadata }) => !isLocalNode(metadata.labels)).map(({ metadata }) => metadata.name);
      return Promise.all(names.slice(0, mostKubelets).map((name) => readShutdown(client, name, inTime)));
    }),
    budgets: seen("PodDisruptionBudgets", async (inTime) => {
      const budgets = client.resource(coreResources.budgets, (value) => DisruptionBudget.parse(value));
      // A cluster on one machine does not serve them.
      const found = await budgets.list({ signal: inTime }).catch(unlessCode("NotFound"));
      return found?.items ?? [];
    }),
    volumeClasses: seen("the classes of volumes", (inTime) => readVolumeClasses(client, inTime)),
    snapshots: readSnapshots(client, { namespace, stored: storedSnapshots, see: seen }),
  });
  // Without any response the cluster is unreachable, which is one error and not ten findings.
  if ("unknown" in facts.version && "unknown" in facts.serverTime) await client.version(signal);
  return { now: clock.now(), namespace, ...facts };
}

const mostNodes = 500;
const mostKubelets = 20;

/** A busy API server lists thousands of Pods within this time. All reads run at the same time. */
const defaultReadMilliseconds = 5_000;

const DataMap = z.looseObject({ metadata: ObjectMeta, data: z.record(z.string(), z.string()).default({}) });

async function readStoreReport(client: KubeClient, signal: AbortSignal): Promise<StoreReport | undefined> {
  const maps = client.resource(coreResources.configMaps, (value) => DataMap.parse(value));
  return parseStoreReport((await maps.find(storeReportMap, { signal }))?.data);
}

const ManagedFields = z.array(z.looseObject({ time: z.string().nullish() })).catch([]);

/** A Lease without a time was never renewed, or its holder has released it. */
function renewedLease({ metadata, spec }: LeaseObject): RenewedLease {
  const { holderIdentity, renewTime, leaseDurationSeconds } = spec;
  const { managedFields } = metadata as { managedFields?: unknown };
  const times = ManagedFields.parse(managedFields).flatMap(({ time }) => time ?? []);
  return {
    name: metadata.name,
    holder: renewTime == null ? "" : (holderIdentity ?? ""),
    renewTime: renewTime ?? metadata.creationTimestamp ?? "",
    durationSeconds: leaseDurationSeconds ?? 40,
    writtenAt: renewTime == null ? undefined : times.sort().at(-1),
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

async function listCells(client: KubeClient, signal: AbortSignal, fieldSelector?: string): Promise<Pod[]> {
  const pods = client.resource(coreResources.pods, (value) => Pod.parse(value));
  const selectors = { labelSelector: `${labels.cell}=true`, ...defined({ fieldSelector }) };
  return (await pods.list({ ...selectors, signal })).items;
}

/** The configuration with which a kubelet runs, as `kubectl get --raw /api/v1/nodes/NAME/proxy/configz` prints it. */
const KubeletConfiguration = z.looseObject({
  kubeletconfig: z.looseObject({ shutdownGracePeriod: z.string().default("0s") }),
});

async function readShutdown(client: KubeClient, node: string, signal: AbortSignal) {
  const answer = await client.resource(coreResources.nodes).getSubresource({ name: node }, "proxy/configz", { signal });
  const { shutdownGracePeriod } = KubeletConfiguration.parse(answer).kubeletconfig;
  return { node, seconds: goSeconds(shutdownGracePeriod) };
}

/** A duration as Go prints it, such as `1m30s`. */
function goSeconds(text: string): number {
  const [, hours = 0, minutes = 0, seconds = 0] = /^(?:(\d+)h)?(?:(\d+)m)?(?:([\d.]+)s)?$/.exec(text) ?? [];
  return Number(hours) * 3600 + Number(minutes) * 60 + Number(seconds);
}

/** The words of a pull name the image: a Pod also has the images of its template. */
async function readUnpulledCells(client: KubeClient, signal: AbortSignal): Promise<UnpulledCell[]> {
  const items = await listCells(client, signal, "status.phase=Pending");
  return items.flatMap(({ spec, status }) => {
    const image = spec.containers[0]?.image ?? "";
    const waiting = status?.containerStatuses?.map(({ state }) => state?.waiting) ?? [];
    return waiting.flatMap((one) => {
      const { reason = "", message = "" } = one ?? {};
      return pullReasons.has(reason) && message.includes(image) ? [{ image, why: message }] : [];
    });
  });
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

/** The rights to write an installation. */
const installing = [
  { group: "apiextensions.k8s.io", resource: "customresourcedefinitions", namespaced: false },
  { group: "rbac.authorization.k8s.io", resource: "clusterroles", namespaced: false },
  { group: "rbac.authorization.k8s.io", resource: "clusterrolebindings", namespaced: false },
  { group: "admissionregistration.k8s.io", resource: "validatingadmissionpolicies", namespaced: false },
  { group: "apps", resource: "deployments", namespaced: true },
].map((right): Right => ({ ...right, verb: "create", purpose: "install Ramet" }));

/** The rights that are reviewed: to install, to use Ramet's kinds, and to read for explanations. */
function reviewedRights(): Right[] {
  const kinds = crdNames().map(({ group, plural }): Right => {
    return { verb: "create", group, resource: plural, namespaced: true, purpose: "use Ramet" };
  });
  const reading = { verb: "list", namespaced: true, purpose: "explain states" };
  return [
    ...installing,
    ...kinds,
    { ...reading, group: "", resource: "pods" },
    { ...reading, group: "events.k8s.io", resource: "events" },
  ];
}
