import * as z from "zod";
import type { ResolvedImage } from "../../api/pod/resolved-image.ts";
import { digestOf } from "../../api/schema/digest.ts";
import { type Clock, backoffMilliseconds } from "../../base/clock.ts";
import { RametError } from "../../base/errors.ts";
import { FairTurns } from "../../base/fair-turns.ts";
import { goArchitecture } from "../../base/machine.ts";
import type { KubeClient } from "../../kube/kube-client.ts";
import { ObjectMeta } from "../../kube/object.ts";
import { coreResources } from "../../kube/resource-ref.ts";
import { lookUpImage } from "../../registry/look-up-image.ts";
import { type PullKeyring, parsePullSecret } from "../../registry/pull-credentials.ts";
import type { RegistryTransport } from "../../registry/registry-transport.ts";

/** The statements of a Pod about its image. */
export interface PodImageRequest {
  namespace: string;
  name: string;
  architecture: string | undefined;
  /** The Pod's `imagePullSecrets`. */
  pullSecrets: readonly string[];
  serviceAccount: string;
}

export type ImageLookup =
  | { state: "running" }
  | { state: "known"; image: ResolvedImage }
  | { state: "failed"; error: RametError; retryInMilliseconds: number };

export interface ImageLookupsOptions {
  client: KubeClient;
  transport: RegistryTransport;
  clock: Clock;
  random: () => number;
}

/**
 * Looks up images in registries, outside reconciles. A result is kept for a minute, so that sandboxes that start together share it,
 * and only for Pods of one namespace with the same Secrets: an image of one tenant is not told to another.
 */
export class ImageLookups {
  readonly #options: ImageLookupsOptions;
  readonly #entries = new Map<string, Entry>();
  readonly #turns = new FairTurns(mostLookups, () => mostOfNamespace);
  readonly #closing = new AbortController();

  constructor(options: ImageLookupsOptions) {
    this.#options = options;
  }

  /** @param onChange called when a running lookup has ended */
  of(request: PodImageRequest, onChange: () => void): ImageLookup {
    // A digest, because the texts are a user's and can be long.
    const id = digestOf(request);
    const now = this.#options.clock.monotonicMilliseconds();
    const known = this.#entries.get(id);
    const isOver = known === undefined || (known.waiting === undefined && known.until <= now);
    const entry = isOver ? this.#start(id, request, known) : known;
    entry.waiting?.push(onChange);
    const { result, until, waiting } = entry;
    if (result.state !== "failed") return result;
    return { ...result, retryInMilliseconds: waiting === undefined ? Math.max(1, until - now) : retryMilliseconds };
  }

  close(): void {
    this.#closing.abort();
    this.#entries.clear();
  }

  /** Looks the image up again. Until then, an earlier failure is the result. */
  #start(id: string, request: PodImageRequest, old: Entry | undefined): Entry {
    const { result = running, failures = 0 } = old?.result.state === "failed" ? old : {};
    const entry: Entry = { result, until: 0, failures, waiting: [] };
    this.#keep(id, entry);
    const { signal } = this.#closing;
    const end = (ended: Result, milliseconds: number, count: number): void => {
      if (this.#entries.get(id) !== entry) return;
      const until = this.#options.clock.monotonicMilliseconds() + milliseconds;
      this.#keep(id, { result: ended, until, failures: count });
      for (const onChange of entry.waiting ?? []) onChange();
    };
    this.#turns
      .run(request.namespace, () => this.#lookUp(request, signal), signal)
      .then(
        (image) => {
          end({ state: "known", image }, keptMilliseconds, 0);
        },
        (thrown: unknown) => {
          const pause = backoffMilliseconds(pauses, failures, this.#options.random);
          end({ state: "failed", error: RametError.from(thrown) }, pause, failures + 1);
        },
      );
    return entry;
  }

  /** Replaces an entry, and drops the oldest result if there are too many. */
  #keep(id: string, entry: Entry): void {
    this.#entries.delete(id);
    this.#entries.set(id, entry);
    if (this.#entries.size <= mostEntries) return;
    const oldest = [...this.#entries].find(([, { waiting }]) => waiting === undefined);
    if (oldest !== undefined) this.#entries.delete(oldest[0]);
  }

  async #lookUp(request: PodImageRequest, signal: AbortSignal): Promise<ResolvedImage> {
    const { name, architecture } = request;
    const keyring = await this.#keyring(request);
    return lookUpImage({ name, architecture, preferred: goArchitecture, keyring, signal }, this.#options);
  }

  /** As a kubelet does: missing and malformed Secrets are skipped, and a service account counts if the Pod names no Secrets. */
  async #keyring({ namespace, pullSecrets, serviceAccount }: PodImageRequest): Promise<PullKeyring> {
    const { client } = this.#options;
    const names = pullSecrets.length > 0 ? pullSecrets : await this.#secretsOf(namespace, serviceAccount);
    const read = async (name: string): Promise<PullKeyring> => {
      const { data } = (await client.secrets.find({ namespace, name })) ?? {};
      const encoded = data?.[".dockerconfigjson"] ?? data?.[".dockercfg"];
      return parsePullSecret(Buffer.from(encoded ?? "", "base64").toString("utf8")) ?? [];
    };
    return (await Promise.all(names.slice(0, mostSecrets).map(read))).flat();
  }

  async #secretsOf(namespace: string, name: string): Promise<string[]> {
    const accounts = this.#options.client.resource(coreResources.serviceAccounts, (value) => Account.parse(value));
    const found = await accounts.find({ namespace, name });
    return (found?.imagePullSecrets ?? []).flatMap(({ name: secret }) => secret ?? []);
  }
}

type Result = { state: "running" } | { state: "known"; image: ResolvedImage } | { state: "failed"; error: RametError };

const running: Result = { state: "running" };

interface Entry {
  result: Result;
  until: number;
  /** In a row. */
  failures: number;
  /** Called when the running lookup has ended; undefined: none runs. */
  waiting?: (() => void)[];
}

const mostLookups = 16;
/** A registry can be slow on purpose. */
const mostOfNamespace = 4;
const mostEntries = 1_000;
const mostSecrets = 16;
const keptMilliseconds = 60_000;
const retryMilliseconds = 10_000;
const pauses = { baseMilliseconds: 5_000, maxMilliseconds: 60_000 };

const Account = z.looseObject({
  metadata: ObjectMeta,
  imagePullSecrets: z.array(z.looseObject({ name: z.string().optional() })).nullish(),
});
