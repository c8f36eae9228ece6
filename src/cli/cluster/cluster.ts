import { type ApiKey, apiKeyKind } from "../../api/kinds/api-key.ts";
import { type Checkpoint, checkpointKind } from "../../api/kinds/checkpoint.ts";
import { RametError } from "../../base/errors.ts";
import type { KindNames } from "../../api/schema/kind.ts";
import { type NamedSnapshot, namedSnapshotKind } from "../../api/kinds/named-snapshot.ts";
import { type Sandbox, sandboxKind } from "../../api/kinds/sandbox.ts";
import { type SandboxSet, sandboxSetKind } from "../../api/kinds/sandbox-set.ts";
import { type SandboxTemplate, sandboxTemplateKind } from "../../api/kinds/sandbox-template.ts";
import type { Credentials } from "../../kube/connection.ts";
import { KubeClient } from "../../kube/kube-client.ts";
import { connectionFromKubeconfig } from "../../kube/kubeconfig.ts";
import type { KubeManifest, KubeObject } from "../../kube/object.ts";
import type { ResourceClient } from "../../kube/resource-client.ts";
import { refOf, type ResourceRef } from "../../kube/resource-ref.ts";
import { apiStatusOf } from "../../kube/status-error.ts";
import type { Io } from "../io.ts";
import { kubeconfigSource } from "./kubeconfig-source.ts";

export interface ClusterOptions {
  kubeconfig?: string;
  context?: string;
  namespace?: string;
}

interface CommandContext {
  signal?: AbortSignal;
  credentials?: Credentials | undefined;
}

/** The cluster of a command, with the user's own permissions. */
export class Cluster {
  readonly client: KubeClient;
  /** The namespace of objects that are named without one. */
  readonly namespace: string;
  readonly sandboxes: ResourceClient<Sandbox>;
  readonly checkpoints: ResourceClient<Checkpoint>;
  readonly templates: ResourceClient<SandboxTemplate>;
  readonly snapshots: ResourceClient<NamedSnapshot>;
  readonly sets: ResourceClient<SandboxSet>;
  readonly apiKeys: ResourceClient<ApiKey>;
  /** The user's own credentials; absent if the user impersonates another one. */
  readonly credentials: Credentials | undefined;
  /** Aborts when the command is interrupted. */
  readonly signal: AbortSignal;

  constructor(client: KubeClient, namespace: string, { signal, credentials }: CommandContext = {}) {
    this.client = client;
    this.namespace = namespace;
    this.credentials = credentials;
    this.signal = signal ?? new AbortController().signal;
    this.sandboxes = client.of(sandboxKind);
    this.checkpoints = client.of(checkpointKind);
    this.templates = client.of(sandboxTemplateKind);
    this.snapshots = client.of(namedSnapshotKind);
    this.sets = client.of(sandboxSetKind);
    this.apiKeys = client.of(apiKeyKind);
  }

  /** The objects of a kind with all their fields, also those that Ramet does not know. */
  raw(kind: KindNames): ResourceClient<KubeObject> {
    return this.client.resource(refOf(kind));
  }

  /** @throws RametError `NotFound`, with the command that lists the existing objects */
  async get<T extends KubeObject>(resource: ResourceClient<T>, name: string): Promise<T> {
    try {
      return await resource.get({ namespace: this.namespace, name }, { signal: this.signal });
    } catch (error) {
      if (!(error instanceof RametError) || error.code !== "NotFound" || isUnknownKind(error)) throw error;
      const noun = nounOf(resource.ref);
      throw new RametError("NotFound", `The ${noun} ${name} does not exist in namespace ${this.namespace}`, {
        hint: `List the existing ones with: ${listing(noun)} -n ${this.namespace}`,
        cause: error,
      });
    }
  }

  /** @throws RametError `AlreadyExists` */
  async create<T extends KubeObject>(resource: ResourceClient<T>, object: KubeManifest): Promise<T> {
    try {
      return await resource.create(object, { signal: this.signal });
    } catch (error) {
      if (apiStatusOf(error)?.httpStatus === 404 && !isUnknownKind(error)) throw noNamespace(this.namespace, error);
      throw error instanceof RametError ? this.#notCreated(resource.ref, object.metadata.name ?? "", error) : error;
    }
  }

  #notCreated(ref: ResourceRef, name: string, cause: RametError): RametError {
    const { namespace } = this;
    const noun = nounOf(ref);
    if (cause.code === "Canceled") {
      const hint = `See the existing ones with: ${listing(noun)} -n ${namespace}`;
      return new RametError("Canceled", `Interrupted: the ${noun} may have been created`, { hint, cause });
    }
    if (cause.code !== "AlreadyExists") return cause;
    const hint = `Choose another --name, or delete it with: ramet ${noun} rm ${name} -n ${namespace}`;
    return new RametError("AlreadyExists", `The ${noun} ${name} already exists in namespace ${namespace}`, {
      hint,
      cause,
    });
  }

  close(): Promise<void> {
    return this.client.close();
  }
}

/**
 * Runs `use` with the cluster that the options and the environment select.
 *
 * @throws RametError `NotFound` when there is no kubeconfig, `Unavailable` if Ramet's CRDs are not installed
 */
export async function withCluster<T>(
  io: Io,
  options: ClusterOptions & { connections?: number },
  use: (cluster: Cluster) => Promise<T>,
): Promise<T> {
  const connection = await connectionFromKubeconfig({
    ...(await kubeconfigSource(io.environment, options.kubeconfig)),
    clock: io.clock,
    ...(options.context === undefined ? {} : { context: options.context }),
  });
  const client = new KubeClient(connection, {
    clock: io.clock,
    userAgent: "ramet-cli",
    connections: options.connections ?? 4,
  });
  const credentials = connection.impersonate === undefined ? connection.credentials : undefined;
  const cluster = new Cluster(client, options.namespace ?? connection.namespace, { signal: io.signal, credentials });
  try {
    return await use(cluster);
  } catch (error) {
    throw isUnknownKind(error) ? noRamet(error) : error;
  } finally {
    await cluster.close();
  }
}

/** For a namespace in which nothing can be listed or created. */
export function noNamespace(namespace: string, cause: unknown): RametError {
  return new RametError("NotFound", `The namespace ${namespace} does not exist`, {
    hint: "Correct --namespace, or the namespace of the kubeconfig's context",
    cause,
  });
}

/** Templates have no commands of their kind. */
function listing(noun: string): string {
  return noun === "template" ? "ramet get templates" : `ramet ${noun} ls`;
}

function nounOf({ kind }: ResourceRef): string {
  return nouns.get(kind) ?? kind;
}

const nouns: ReadonlyMap<string, string> = new Map([
  ["Sandbox", "sandbox"],
  ["Checkpoint", "checkpoint"],
  ["SandboxTemplate", "template"],
  ["SandboxSet", "set"],
  ["SandboxClaim", "claim"],
  ["NamedSnapshot", "snapshot"],
  ["ApiKey", "key"],
]);

/** The 404 for a missing object names it; the 404 for an unknown kind has no details. */
export function isUnknownKind(error: unknown): boolean {
  const status = apiStatusOf(error);
  return status?.httpStatus === 404 && /could not find the requested resource|404 page not found/.test(status.message);
}

function noRamet(cause: unknown): RametError {
  return new RametError("Unavailable", "The cluster does not know Ramet's kinds: its CRDs are not installed", {
    hint: "Start the controller there (ramet controller --install-crds), or a local cluster with: ramet local up",
    cause,
  });
}
