import type * as z from "zod";
import { RametError } from "../../../src/base/errors.ts";
import type { KubeClient } from "../../../src/kube/kube-client.ts";
import { keyOf } from "../../../src/kube/object.ts";
import { coreResources, type ResourceRef } from "../../../src/kube/resource-ref.ts";
import { readCluster, type ClusterEnvironment } from "../open-cluster.ts";
import { ownerAnnotation } from "../owner.ts";
import { controllerObjects } from "./controller-findings.ts";
import { breaksRules } from "./orphan-findings.ts";
import {
  managementOf,
  observeController,
  Crd,
  observeCrd,
  csiDrivers,
  daemonSets,
  Deployment,
  deployments,
  Lease,
  Named,
  oldSnapshots,
  Page,
  SnapshotClass,
  snapshotClasses,
  validatingWebhooks,
  Webhooks,
  observeWebhook,
  WithData,
} from "./observed-objects.ts";
import {
  type ObservedClass,
  controllerLease,
  type ObservedController,
  crdNames,
  type ObservedCrd,
  defaultClassAnnotation,
  type Installed,
  installedMap,
  type ObservedLease,
  type ObservedNode,
  type ObservedObject,
  podIdentityAgent,
  sandboxLeases,
  type ObservedCluster,
  type ObservedWebhook,
} from "./observed-cluster.ts";

/**
 * Reads the cluster and changes nothing.
 * @param namespace the namespace of a controller to install. Undefined if none would be installed
 * @throws RametError if the cluster is unreachable
 */
export function findStack(env: ClusterEnvironment, namespace: string | undefined): Promise<ObservedCluster> {
  return readCluster(env, async (client, signal) => {
    const unread: string[] = [];
    const reader = new ClusterReader(client, signal, unread);
    // The first request is sent alone, so that an unreachable cluster is reported once.
    const crds = await reader.crds();
    const server = await client.version(signal);
    const [controllers, controllerObjects, leases, hasSandboxController, drivers, classes] = await Promise.all([
      reader.controllers(),
      reader.controllerObjects(namespace),
      reader.leases(),
      reader.hasSandboxController(),
      reader.drivers(),
      reader.classes(),
    ]);
    const [webhooks, breakingRules, nodes, daemonSets, installed] = await Promise.all([
      reader.webhooks(),
      reader.breakingRules(crds),
      reader.nodes(),
      reader.daemonSets(),
      reader.installed(),
    ]);
    return {
      server,
      crds,
      controllers,
      controllerObjects,
      leases,
      hasSandboxController,
      drivers,
      classes,
      webhooks,
      breakingRules,
      nodes,
      daemonSets,
      installed,
      unread,
    };
  });
}

class ClusterReader {
  readonly #client: KubeClient;
  readonly #signal: AbortSignal;
  readonly #unread: string[];

  constructor(client: KubeClient, signal: AbortSignal, unread: string[]) {
    this.#client = client;
    this.#signal = signal;
    this.#unread = unread;
  }

  async crds(): Promise<ObservedCrd[]> {
    const names = Object.values(crdNames).flat();
    const found = await Promise.all(names.map((name) => this.#find(coreResources.crds, Crd, { name })));
    return found.filter((crd) => crd !== undefined).map(observeCrd);
  }

  /** Finds controllers by the labels of upstream's charts and of its manifests before and since v7. */
  async controllers(): Promise<ObservedController[]> {
    const selectors = ["app.kubernetes.io/name=snapshot-controller", "app=snapshot-controller"];
    const lists = await Promise.all(
      selectors.map((labelSelector) => this.#list(deployments, Deployment, { labelSelector })),
    );
    const byPlace = new Map(lists.flat().map((one) => [`${one.metadata.namespace ?? ""}/${one.metadata.name}`, one]));
    return [...byPlace.values()].map(observeController);
  }

  async controllerObjects(namespace: string | undefined): Promise<ObservedObject[]> {
    if (namespace === undefined) return [];
    const found = await Promise.all(
      controllerObjects(namespace).map(async ({ ref, ...at }) => {
        const object = await this.#find(ref, Named, at);
        return object === undefined ? [] : [{ kind: ref.kind, ...at, ...managementOf(object.metadata) }];
      }),
    );
    return found.flat();
  }

  leases(): Promise<ObservedLease[]> {
    return this.#fresh(controllerLease);
  }

  async hasSandboxController(): Promise<boolean> {
    return (await Promise.all(sandboxLeases.map((name) => this.#fresh(name)))).some((found) => found.length > 0);
  }

  async #fresh(name: string): Promise<ObservedLease[]> {
    const fieldSelector = `metadata.name=${name}`;
    const found = await this.#list(coreResources.leases, Lease, { fieldSelector });
    const oldest = this.#client.clock.now().getTime() - freshMilliseconds;
    return found
      .filter(({ spec }) => Date.parse(spec?.renewTime ?? "") > oldest)
      .map(({ metadata, spec }) => ({ namespace: metadata.namespace ?? "", holder: spec?.holderIdentity ?? "" }));
  }

  async drivers(): Promise<string[]> {
    return (await this.#list(csiDrivers, Named)).map(({ metadata }) => metadata.name).sort();
  }

  async classes(): Promise<ObservedClass[]> {
    return (await this.#list(snapshotClasses, SnapshotClass)).map(({ metadata, driver, deletionPolicy }) => ({
      name: metadata.name,
      driver,
      deletionPolicy,
      isDefault: metadata.annotations?.[defaultClassAnnotation] === "true",
      ...managementOf(metadata),
    }));
  }

  async webhooks(): Promise<ObservedWebhook[]> {
    const found = await this.#list(validatingWebhooks, Webhooks);
    return found.map(observeWebhook).filter((webhook) => webhook !== undefined);
  }

  /** Reads all snapshots only if the stack would add the rules: there may be tens of thousands. */
  async breakingRules(crds: readonly ObservedCrd[]): Promise<string[]> {
    const refs = oldSnapshots.filter(({ plural, group }) =>
      crds.some(
        ({ name, hasRules, declaredBy }) => name === `${plural}.${group}` && !hasRules && declaredBy !== undefined,
      ),
    );
    const found = await Promise.all(
      refs.map(async (ref) => {
        const objects = await this.#list(ref, Named);
        const broken = objects.filter((object) => breaksRules({ ...object, kind: ref.kind }));
        return broken.map(({ metadata }) => `${ref.kind.toLowerCase()}/${keyOf(metadata)}`);
      }),
    );
    return found.flat();
  }

  /** A few nodes are enough to detect the cloud. */
  async nodes(): Promise<ObservedNode[]> {
    const page = await this.#page(coreResources.nodes, Named, { limit: 5 });
    return page.map(({ metadata }) => ({ labels: metadata.labels ?? {} }));
  }

  async daemonSets(): Promise<string[]> {
    const at = { namespace: "kube-system", name: podIdentityAgent };
    return (await this.#find(daemonSets, Named, at)) === undefined ? [] : [podIdentityAgent];
  }

  async installed(): Promise<Installed | undefined> {
    const { namespace, name, key } = installedMap;
    const found = await this.#find(coreResources.configMaps, WithData, { namespace, name });
    const declaredBy = found?.metadata.annotations?.[ownerAnnotation];
    if (found === undefined || declaredBy === undefined) return undefined;
    return { declaredBy, addons: (found.data?.[key] ?? "").split("\n").filter((line) => line !== "") };
  }

  async #find<T>(ref: ResourceRef, schema: z.ZodType<T>, at: Place): Promise<T | undefined> {
    const found = await this.#tolerant(ref, () => this.#client.resource(ref).find(at, { signal: this.#signal }));
    return found === undefined ? undefined : schema.parse(found);
  }

  async #list<T>(
    ref: ResourceRef,
    schema: z.ZodType<T>,
    select: { labelSelector?: string; fieldSelector?: string } = {},
  ): Promise<T[]> {
    const found = await this.#tolerant(ref, () =>
      this.#client.resource(ref).listRaw({ ...select, signal: this.#signal }),
    );
    return (found?.items ?? []).map((item) => schema.parse(item));
  }

  async #page<T>(ref: ResourceRef, schema: z.ZodType<T>, query: { limit: number }): Promise<T[]> {
    const request = { verb: "list", resource: ref, at: {}, query, repeatable: true, signal: this.#signal } as const;
    const found = await this.#tolerant(ref, () => this.#client.request(request));
    return found === undefined ? [] : (Page.parse(found).items ?? []).map((item) => schema.parse(item));
  }

  /** Treats resources that are not served as missing, and records those that may not be read. */
  async #tolerant<T>(ref: ResourceRef, read: () => Promise<T>): Promise<T | undefined> {
    try {
      return await read();
    } catch (error) {
      const { code } = RametError.from(error);
      if (code === "NotFound") return undefined;
      if (code !== "Forbidden") throw error;
      if (!this.#unread.includes(ref.plural)) this.#unread.push(ref.plural);
      return undefined;
    }
  }
}

interface Place {
  namespace?: string;
  name: string;
}

/** A lease is renewed every 5 s and valid for 15 s. The rest tolerates clock differences. */
const freshMilliseconds = 60_000;
