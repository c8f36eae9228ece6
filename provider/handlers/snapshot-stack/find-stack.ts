import * as z from "zod";
import { ownerAnnotation } from "../../../src/api/names/labels.ts";
import { competingControllers } from "../../../src/api/names/other-controllers.ts";
import { allOf } from "../../../src/preflight/finding.ts";
import { RametError } from "../../../src/base/errors.ts";
import type { KubeClient } from "../../../src/kube/kube-client.ts";
import { keyOf, type KubeObject } from "../../../src/kube/object.ts";
import { heldLeases } from "../../../src/kube/other-controllers.ts";
import { coreResources, namespacedRef, type ResourceRef } from "../../../src/kube/resource-ref.ts";
import { snapshotResources } from "../../../src/kube/volumes/snapshots.ts";
import {
  readControllers,
  readCrds,
  readDrivers,
  readSnapshotClasses,
  readWebhooks,
} from "../../../src/preflight/read-snapshots.ts";
import { crdNames, managementOf, Named, type ObservedCrd } from "../../../src/preflight/snapshot-objects.ts";
import { readCluster, type ClusterEnvironment } from "../open-cluster.ts";
import {
  controllerLease,
  controllerObjects,
  type Installed,
  installedMap,
  type ObservedCluster,
  type ObservedNode,
  type ObservedObject,
  podIdentityAgent,
} from "./observed-cluster.ts";
import { breaksRules } from "./upgrade-findings.ts";

/**
 * Reads the cluster and changes nothing.
 * @param namespace the namespace of a controller to install. Undefined if none would be installed
 * @throws RametError if the cluster is unreachable
 */
export function findStack(env: ClusterEnvironment, namespace: string | undefined): Promise<ObservedCluster> {
  return readCluster(env, async (client, signal) => {
    const unread = new Set<string>();
    const see = tolerant(unread);
    // The first request is sent alone, so that an unreachable cluster is reported once.
    const crds = await see(coreResources.crds.plural, [], readCrds(client, Object.values(crdNames).flat(), signal));
    const server = await client.version(signal);
    const reader = { client, signal, see };
    const held = (lease: string) => see(coreResources.leases.plural, [], heldLeases(client, lease, signal));
    const { sandboxLeases, ...observed } = await allOf({
      controllers: see(coreResources.deployments.plural, [], readControllers(client, signal)),
      controllerObjects: readControllerObjects(reader, namespace),
      leases: held(controllerLease),
      sandboxLeases: Promise.all(competingControllers.flatMap((known) => known.leases.map(held))),
      drivers: see("csidrivers", [], readDrivers(client, signal)),
      classes: see(snapshotResources.classes.plural, [], readSnapshotClasses(client, signal)),
    });
    const { agent, ...others } = await allOf({
      webhooks: see("validatingwebhookconfigurations", [], readWebhooks(client, signal)),
      breakingRules: readBreakingRules(reader, crds),
      nodes: readNodes(reader),
      agent: find(reader, daemonSets, { namespace: "kube-system", name: podIdentityAgent }),
      installed: readInstalled(reader),
    });
    return {
      server,
      crds,
      ...observed,
      ...others,
      hasSandboxController: sandboxLeases.flat().length > 0,
      daemonSets: agent === undefined ? [] : [podIdentityAgent],
      unread: [...unread],
    };
  });
}

type See = <T>(plural: string, otherwise: T, read: Promise<T>) => Promise<T>;

/** Treats resources that are not served as missing, and records those that may not be read. */
function tolerant(unread: Set<string>): See {
  return async (plural, otherwise, read) => {
    try {
      return await read;
    } catch (error) {
      const { code } = RametError.from(error);
      if (code !== "NotFound" && code !== "Forbidden") throw error;
      if (code === "Forbidden") unread.add(plural);
      return otherwise;
    }
  };
}

interface Reader {
  client: KubeClient;
  signal: AbortSignal;
  see: See;
}

function find(
  { client, signal, see }: Reader,
  ref: ResourceRef,
  at: { namespace?: string; name: string },
): Promise<KubeObject | undefined> {
  return see(ref.plural, undefined, client.resource(ref).find(at, { signal }));
}

async function readControllerObjects(reader: Reader, namespace: string | undefined): Promise<ObservedObject[]> {
  if (namespace === undefined) return [];
  const found = await Promise.all(
    controllerObjects(namespace).map(async ({ ref, ...at }) => {
      const object = await find(reader, ref, at);
      return object === undefined ? [] : [{ kind: ref.kind, ...at, ...managementOf(Named.parse(object).metadata) }];
    }),
  );
  return found.flat();
}

/** Reads all snapshots only if the stack would add the rules: there may be tens of thousands. */
async function readBreakingRules({ client, signal, see }: Reader, crds: readonly ObservedCrd[]): Promise<string[]> {
  const refs = [snapshotResources.snapshots, snapshotResources.contents].filter(({ plural, group }) =>
    crds.some(
      ({ name, hasRules, declaredBy }) => name === `${plural}.${group}` && !hasRules && declaredBy !== undefined,
    ),
  );
  const found = await Promise.all(
    refs.map(async (ref) => {
      const empty = { items: [] as unknown[], resourceVersion: "" };
      const { items } = await see(ref.plural, empty, client.resource(ref).listRaw({ signal }));
      const broken = items.map((item) => Named.parse(item)).filter((one) => breaksRules({ ...one, kind: ref.kind }));
      return broken.map(({ metadata }) => `${ref.kind.toLowerCase()}/${keyOf(metadata)}`);
    }),
  );
  return found.flat();
}

/** A few nodes are enough to detect the cloud. */
async function readNodes({ client, signal, see }: Reader): Promise<ObservedNode[]> {
  const resource = coreResources.nodes;
  const request = { verb: "list", resource, at: {}, query: { limit: 5 }, repeatable: true, signal } as const;
  const { items } = Page.parse(await see(resource.plural, {}, client.request(request)));
  return (items ?? []).map(({ metadata }) => ({ labels: metadata.labels ?? {} }));
}

async function readInstalled(reader: Reader): Promise<Installed | undefined> {
  const { namespace, name, key } = installedMap;
  const found = await find(reader, coreResources.configMaps, { namespace, name });
  const declaredBy = found?.metadata.annotations?.[ownerAnnotation];
  if (found === undefined || declaredBy === undefined) return undefined;
  const { data } = WithData.parse(found);
  return { declaredBy, addons: (data?.[key] ?? "").split("\n").filter((line) => line !== "") };
}

const daemonSets = namespacedRef("apps/v1", "DaemonSet");

const Page = z.looseObject({ items: z.array(Named).nullish() });
const WithData = z.looseObject({ data: z.record(z.string(), z.string()).optional() });
