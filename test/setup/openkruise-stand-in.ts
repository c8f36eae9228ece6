import { createHash, randomUUID } from "node:crypto";
import { cp, mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { basename, join } from "node:path";
import { sandboxResources } from "../../src/controllers/cluster/resources.ts";
import { runController, watching } from "../../src/kube/controller.ts";
import { Informer } from "../../src/kube/informer.ts";
import type { KubeClient } from "../../src/kube/kube-client.ts";
import { controllerOf, keyOf, type KubeObject } from "../../src/kube/object.ts";
import { RunningGuest } from "../contract/guest/running-guest.ts";

/** An object of their kinds, of which only what is read here is known. */
interface Theirs extends KubeObject {
  spec: {
    template?: Template;
    templateRef?: { name: string };
    podName?: string;
    keepRunning?: boolean;
    persistentContents?: string[];
    replicas?: number;
  };
  status?: { phase?: string; checkpointId?: string; conditions?: { type: string; status: string }[] };
}
interface Template {
  metadata?: { labels?: Record<string, string>; annotations?: Record<string, string> };
  spec?: object;
}

const restoreFrom = "checkpoint.alibabacloud.com/restore-from";

/**
 * A stand-in for the controllers of OpenKruise Agents and ACS, of which the part that captures and restores is not public. It behaves
 * as the page "Clone an Agent Sandbox with Checkpoint" of ACS and OpenKruise's types say: it takes Pod names, a template's
 * annotations and one capture a Pod at a time, rejects a clone with another template, and keeps a template for each revision of a
 * set. A sandbox is Ramet's guest as an ordinary process in a directory of its own.
 *
 * It does not prove that ACS behaves so, that envd answers as the guest does, or anything of memory: a restored sandbox has the
 * files of its source and none of its processes.
 */
export class OpenKruiseStandIn {
  readonly #client: KubeClient;
  readonly #informers: Record<"sandboxes" | "checkpoints" | "templates" | "sets", Informer<Theirs>>;
  readonly #guests = new Map<string, RunningGuest>();
  /** By namespace and checkpoint id. */
  readonly #images = new Map<string, { directory: string; template: Template }>();
  readonly #capturing = new Set<string>();
  #stop: (() => Promise<void>) | undefined;
  /** Captures of these Pods fail, with this message. */
  readonly failing = new Map<string, string>();
  /** The captures, in order: `pod: contents`. */
  readonly captures: string[] = [];

  constructor(client: KubeClient) {
    this.#client = client;
    const informer = (which: keyof typeof sandboxResources) =>
      new Informer({ resource: client.resource(sandboxResources[which], (value) => value as Theirs) });
    this.#informers = {
      sandboxes: informer("sandboxes"),
      checkpoints: informer("checkpoints"),
      templates: informer("templates"),
      sets: informer("sets"),
    };
  }

  /** The guest of a running sandbox. */
  guest(namespace: string, name: string): RunningGuest {
    const guest = this.#guests.get(this.#informers.sandboxes.store.get(`${namespace}/${name}`)?.metadata.uid ?? "");
    if (guest === undefined) throw new Error(`the sandbox ${name} does not run`);
    return guest;
  }

  async start(): Promise<void> {
    const abort = new AbortController();
    const { sandboxes, checkpoints, templates, sets } = this.#informers;
    const running = Object.values(this.#informers).map((informer) => informer.run(abort.signal));
    await Promise.all(Object.values(this.#informers).map((informer) => informer.synced()));
    const { clock } = this.#client;
    const ofSandbox = (object: Theirs) => {
      const owner = controllerOf(object);
      return owner?.kind === "SandboxSet" ? [`${object.metadata.namespace ?? ""}/${owner.name}`] : [];
    };
    // A sandbox may be known before its template.
    const ofTemplate = ({ metadata: { namespace, name } }: Theirs) =>
      sandboxes.store
        .list()
        .filter((one) => one.metadata.namespace === namespace && one.spec.templateRef?.name === name)
        .map(({ metadata }) => keyOf(metadata));
    const controllers = [
      {
        name: "sandboxes",
        watches: [watching(sandboxes), watching(templates, ofTemplate)],
        reconcile: this.#reconcileSandbox,
      },
      { name: "checkpoints", watches: [watching(checkpoints)], reconcile: this.#reconcileCheckpoint },
      { name: "sets", watches: [watching(sets), watching(sandboxes, ofSandbox)], reconcile: this.#reconcileSet },
    ].map((one) => runController({ ...one, clock }, abort.signal));
    this.#stop = async () => {
      abort.abort();
      await Promise.all([...running, ...controllers]);
    };
  }

  /** Stops the controllers; their sandboxes keep running. */
  async stop(): Promise<void> {
    await this.#stop?.();
    this.#stop = undefined;
  }

  async close(): Promise<void> {
    await this.stop();
    for (const guest of this.#guests.values()) await guest[Symbol.asyncDispose]();
    for (const { directory } of this.#images.values()) await rm(directory, { recursive: true, force: true });
  }

  readonly #reconcileSandbox = async (key: string): Promise<void> => {
    const sandbox = this.#informers.sandboxes.store.get(key);
    await this.#disposeGone();
    if (sandbox === undefined || (sandbox.status?.phase ?? "Pending") !== "Pending") return;
    const template = this.#templateOf(sandbox);
    if (template === undefined) return;
    const id = template.metadata?.annotations?.[restoreFrom];
    const image = id === undefined ? undefined : this.#images.get(`${sandbox.metadata.namespace ?? ""}/${id}`);
    if (id !== undefined && image === undefined) return this.#fail(sandbox, `checkpoint ${id} not found`);
    if (image !== undefined && JSON.stringify(image.template.spec) !== JSON.stringify(template.spec)) {
      return this.#fail(sandbox, "the spec is not consistent with that of the original Pod");
    }
    const guest = await RunningGuest.start();
    this.#guests.set(sandbox.metadata.uid, guest);
    if (image !== undefined) await copyFiles(image.directory, guest.directory);
    const time = new Date().toISOString();
    await this.#writeStatus("sandboxes", sandbox, {
      phase: "Running",
      sandboxIp: guest.address,
      podInfo: { podIP: guest.address, podUID: randomUUID() },
      conditions: [{ type: "Ready", status: "True", reason: "PodReady", message: "", lastTransitionTime: time }],
    });
  };

  readonly #reconcileCheckpoint = async (key: string): Promise<void> => {
    const checkpoint = this.#informers.checkpoints.store.get(key);
    if (checkpoint === undefined || checkpoint.status?.phase !== undefined) return;
    const { namespace = "" } = checkpoint.metadata;
    const { podName = "", persistentContents = ["memory", "filesystem"], keepRunning = true } = checkpoint.spec;
    const source = this.#informers.sandboxes.store.get(`${namespace}/${podName}`);
    const template = source && this.#templateOf(source);
    const problem = this.#captureProblem(podName, source, template);
    if (problem !== undefined || source === undefined || template === undefined) {
      await this.#writeStatus("checkpoints", checkpoint, { phase: "Failed", message: problem });
      return;
    }
    this.#capturing.add(source.metadata.uid);
    try {
      await this.#writeStatus("checkpoints", checkpoint, { phase: "Creating" });
      const directory = await mkdtemp(join(tmpdir(), "openkruise-stand-in-"));
      await copyFiles(this.guest(namespace, podName).directory, directory);
      const checkpointId = `c-${randomUUID()}`;
      this.#images.set(`${namespace}/${checkpointId}`, { directory, template });
      this.captures.push(`${podName}: ${persistentContents.join(",")}`);
      const completionTime = new Date().toISOString();
      await this.#writeStatus("checkpoints", checkpoint, { phase: "Succeeded", checkpointId, completionTime });
    } finally {
      this.#capturing.delete(source.metadata.uid);
    }
    if (!keepRunning) await this.#writeStatus("sandboxes", source, { phase: "Succeeded" });
  };

  #captureProblem(podName: string, source: Theirs | undefined, template: Template | undefined): string | undefined {
    if (source === undefined || template === undefined) return `Pod ${podName} not found`;
    if (!source.status?.conditions?.some(({ type, status }) => type === "Ready" && status === "True")) {
      return `Pod ${podName} is not Running and Ready`;
    }
    if (template.metadata?.annotations?.["ops.alibabacloud.com/pause-enabled"] !== "true") {
      return `Pod ${podName} lacks the annotation ops.alibabacloud.com/pause-enabled`;
    }
    if (this.#capturing.has(source.metadata.uid)) return `another Checkpoint of Pod ${podName} is running`;
    return this.failing.get(podName.replace(/-[^-]*$/, ""));
  }

  /** Keeps `replicas` sandboxes of the current revision; replaces one of an old revision at a time. */
  readonly #reconcileSet = async (key: string): Promise<void> => {
    const set = this.#informers.sets.store.get(key);
    if (set === undefined) return;
    const { name, namespace = "", uid } = set.metadata;
    const owned = (await this.#informers.sandboxes.resource.list({ namespace })).items.filter(
      (one) => controllerOf(one)?.uid === uid && one.metadata.deletionTimestamp === undefined,
    );
    const template = set.spec.template ?? {};
    const hash = createHash("sha256").update(JSON.stringify(template)).digest("hex").slice(0, 8);
    const owner = { apiVersion: "agents.kruise.io/v1alpha1", kind: "SandboxSet", name, uid, controller: true };
    if (owned.length < (set.spec.replicas ?? 0)) {
      const revision = `${name}-${hash}`;
      const common = { apiVersion: "agents.kruise.io/v1alpha1" };
      if ((await this.#informers.templates.resource.find({ namespace, name: revision })) === undefined) {
        const metadata = { name: revision, namespace, ownerReferences: [owner] };
        await this.#informers.templates.resource.create({
          ...common,
          kind: "SandboxTemplate",
          metadata,
          spec: { template },
        });
      }
      await this.#informers.sandboxes.resource.create({
        ...common,
        kind: "Sandbox",
        metadata: {
          generateName: `${name}-`,
          namespace,
          labels: { ...template.metadata?.labels, "agents.kruise.io/template-hash": hash },
          annotations: template.metadata?.annotations ?? {},
          ownerReferences: [owner],
        },
        spec: { templateRef: { name: revision } },
      });
      return;
    }
    const old = owned.find(({ metadata }) => metadata.labels?.["agents.kruise.io/template-hash"] !== hash);
    const isSettled = owned.every(({ status }) => status?.phase === "Running");
    if (old !== undefined && isSettled) await this.#informers.sandboxes.resource.delete(old.metadata);
  };

  #templateOf({ metadata, spec }: Theirs): Template | undefined {
    if (spec.template !== undefined) return spec.template;
    return this.#informers.templates.store.get(`${metadata.namespace ?? ""}/${spec.templateRef?.name ?? ""}`)?.spec
      .template;
  }

  async #disposeGone(): Promise<void> {
    for (const [uid, guest] of this.#guests) {
      if (this.#informers.sandboxes.store.byUid(uid) !== undefined) continue;
      this.#guests.delete(uid);
      await guest[Symbol.asyncDispose]();
    }
  }

  async #fail(sandbox: Theirs, message: string): Promise<void> {
    await this.#writeStatus("sandboxes", sandbox, { phase: "Failed", message });
  }

  async #writeStatus(which: "sandboxes" | "checkpoints", { metadata }: Theirs, status: object): Promise<void> {
    const { uid } = metadata;
    await this.#informers[which].resource.mergePatch(
      metadata,
      { metadata: { uid }, status },
      { subresource: "status" },
    );
  }
}

/** Without the guest's own directories. */
async function copyFiles(from: string, to: string): Promise<void> {
  await cp(from, to, { recursive: true, filter: (path) => !["hooks", "state"].includes(basename(path)) });
}
