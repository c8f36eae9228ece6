import { isDeepStrictEqual } from "node:util";
import * as z from "zod";
import { Condition } from "../../src/api/schema/metadata.ts";
import type { KubeClient } from "../../src/kube/kube-client.ts";
import type { KubeManifest, KubeObject } from "../../src/kube/object.ts";
import type { ResourceClient } from "../../src/kube/resource-client.ts";
import { follow } from "../../provider/handlers/follow.ts";
import type { Difference, ResourceProvider } from "./resource-provider.ts";
import type { Values } from "./values.ts";

/**
 * Applies `kubernetes:*` resources by server-side apply: a stand-in for `pulumi-resource-kubernetes`. It waits for the conditions in
 * the annotation `pulumi.com/waitFor`, for at most `pulumi.com/timeoutSeconds`, and for deleted objects to disappear.
 */
export class KubernetesResources implements ResourceProvider {
  readonly #client: KubeClient;
  readonly #discovered = new Map<string, Promise<ApiResource[]>>();

  readonly #canceled = new AbortController();

  constructor(client: KubeClient) {
    this.#client = client;
  }

  /** Ends all waits. */
  cancel(): void {
    this.#canceled.abort();
  }

  check(_olds: Values, news: Values): Promise<Values> {
    const { metadata, kind } = Manifest.parse(news);
    if (metadata.name === undefined) throw new Error(`a ${kind} has no name; the stand-in does not generate names`);
    return Promise.resolve(news);
  }

  diff(_id: string, old: { inputs: Values }, news: Values): Promise<Difference> {
    const [before, after] = [Manifest.parse(old.inputs), Manifest.parse(news)];
    const moved = (["name", "namespace"] as const).filter((key) => before.metadata[key] !== after.metadata[key]);
    const changes = !isDeepStrictEqual(old.inputs, news);
    const replaces = moved.map((key) => `metadata.${key}`);
    return Promise.resolve({ changes, replaces, deleteBeforeReplace: false });
  }

  async create(inputs: Values): Promise<{ id: string; outputs: Values }> {
    const { namespace, name } = Manifest.parse(inputs).metadata;
    return { id: `${namespace ?? ""}/${name ?? ""}`, outputs: await this.#apply(inputs) };
  }

  update(_id: string, _old: Values, news: Values): Promise<Values> {
    return this.#apply(news);
  }

  async read(_id: string, outputs: Values): Promise<Values | undefined> {
    const manifest = Manifest.parse(outputs);
    const found = await (await this.#resource(manifest)).find(placeOf(manifest));
    return found && { ...found };
  }

  async delete(_id: string, outputs: Values): Promise<void> {
    const manifest = Manifest.parse(outputs);
    const resource = await this.#resource(manifest);
    const from = await resource.find(placeOf(manifest));
    if (from === undefined) return;
    const { name, uid } = from.metadata;
    await resource.delete(from.metadata, { uid, propagationPolicy: "Background" });
    const what = `the deletion of the ${manifest.kind} ${name}`;
    await follow({
      resource,
      from,
      what,
      until: (seen) => seen === undefined,
      timeoutMilliseconds: 120_000,
      signal: this.#canceled.signal,
    });
  }

  async #apply(inputs: Values): Promise<Values> {
    const manifest = Manifest.parse(inputs);
    const resource = await this.#resource(manifest);
    const applied = await resource.apply(inputs as unknown as KubeManifest, { fieldManager: "stand-in", force: true });
    const conditions = conditionsToAwait(manifest);
    if (conditions.length === 0) return { ...applied };
    const generation = applied.metadata.generation ?? 0;
    const ready = await follow({
      resource,
      from: applied,
      what: `${conditions.join(" and ")} of the ${manifest.kind} ${applied.metadata.name}`,
      until: (seen) => seen !== undefined && hasConditions(seen, conditions, generation),
      timeoutMilliseconds: Number(manifest.metadata.annotations?.["pulumi.com/timeoutSeconds"] ?? 300) * 1000,
      signal: this.#canceled.signal,
    });
    return { ...ready };
  }

  async #resource({ apiVersion, kind }: Manifest): Promise<ResourceClient<KubeObject>> {
    const [version = "", group = ""] = apiVersion.split("/").reverse();
    const known = this.#discovered.get(apiVersion) ?? this.#discover(group, version);
    this.#discovered.set(apiVersion, known);
    const found = (await known).find((one) => one.kind === kind && !one.name.includes("/"));
    if (found === undefined) throw new Error(`the API server does not serve ${kind} of ${apiVersion}`);
    return this.#client.resource({ group, version, plural: found.name, kind, namespaced: found.namespaced });
  }

  async #discover(group: string, version: string): Promise<ApiResource[]> {
    const resource = { group, version, plural: "", kind: "", namespaced: false };
    const list = await this.#client.request({ verb: "get", resource, at: {}, repeatable: true });
    return ResourceList.parse(list).resources;
  }
}

function conditionsToAwait({ metadata }: Manifest): string[] {
  const text = metadata.annotations?.["pulumi.com/waitFor"];
  if (text === undefined) return [];
  const all = text.startsWith("[") ? z.array(z.string()).parse(JSON.parse(text)) : [text];
  return all.map((one) => {
    const type = /^condition=(\w+)$/.exec(one)?.[1];
    if (type === undefined) throw new Error(`the stand-in supports only conditions in pulumi.com/waitFor: ${one}`);
    return type;
  });
}

function hasConditions(seen: KubeObject, types: readonly string[], generation: number): boolean {
  const { status } = WithConditions.parse(seen);
  if ((status?.observedGeneration ?? generation) < generation) return false;
  return types.every((type) => status?.conditions?.some((one) => one.type === type && one.status === "True") ?? false);
}

function placeOf({ metadata }: Manifest): { namespace?: string; name: string } {
  return { ...(metadata.namespace !== undefined && { namespace: metadata.namespace }), name: metadata.name ?? "" };
}

const Manifest = z.looseObject({
  apiVersion: z.string(),
  kind: z.string(),
  metadata: z.looseObject({
    name: z.string().optional(),
    namespace: z.string().optional(),
    annotations: z.record(z.string(), z.string()).optional(),
  }),
});
type Manifest = z.infer<typeof Manifest>;
const ApiResource = z.looseObject({ name: z.string(), kind: z.string(), namespaced: z.boolean() });
type ApiResource = z.infer<typeof ApiResource>;
const ResourceList = z.looseObject({ resources: z.array(ApiResource) });
const WithConditions = z.looseObject({
  status: z
    // The conditions of a new CRD are `null`.
    .looseObject({ observedGeneration: z.number().optional(), conditions: z.array(Condition).nullish() })
    .optional(),
});
