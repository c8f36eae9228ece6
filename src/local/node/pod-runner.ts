import { RametError } from "../../base/errors.ts";
import type { ReconcileResult } from "../../kube/controller.ts";
import type { Informer } from "../../kube/informer.ts";
import type { Log } from "../../base/log.ts";
import { keyOf } from "../../kube/object.ts";
import type { ResourceClient } from "../../kube/resource-client.ts";
import { StatusWriter } from "../../kube/status-writer.ts";
import { signalProcess } from "../process-identity.ts";
import { observe, unreportedMilliseconds } from "./observe.ts";
import { PodDirectory, podDirectories } from "./pod-directory.ts";
import { PodProcess } from "./pod-process.ts";
import { podStatus, type Observation } from "./pod-status.ts";
import { awaitsNode, graceMilliseconds, hasEnded, type NodePod } from "./pod.ts";
import { startPod, type PodStarterOptions } from "./start-pod.ts";
import { podProcesses } from "./orphans.ts";
import { unsupported } from "./unsupported.ts";

export interface PodRunnerOptions extends PodStarterOptions {
  informer: Informer<NodePod>;
  log: Log;
}

/** Pause before a failed start of a Pod is retried (missing image, object or program). */
const retryMilliseconds = 2_000;

/** Starts and stops processes as the Pods specify, and reports their state in the Pods' status. */
export class PodRunner {
  readonly #options: PodRunnerOptions;
  readonly #resource: ResourceClient<NodePod>;
  readonly #statuses: StatusWriter<NodePod>;
  /** By the Pod's UID. */
  readonly #processes = new Map<string, PodProcess>();
  #enqueue: (key: string) => void = () => undefined;

  constructor(options: PodRunnerOptions) {
    this.#options = options;
    this.#resource = options.informer.resource;
    this.#statuses = new StatusWriter(this.#resource, { observedGeneration: false });
  }

  /** Adopts the Pods of an earlier run of the node, and kills Pod processes without a record. */
  recover(): void {
    const { pods, clock } = this.#options;
    for (const uid of podDirectories(pods)) {
      const directory = new PodDirectory(pods, uid);
      const record = directory.readRecord();
      if (record === undefined) continue;
      this.#processes.set(uid, PodProcess.adopt(record, { directory, clock, onChange: this.#changed(record) }));
    }
    const known = new Set([...this.#processes.values()].map(({ record }) => record.spare ?? record.uid));
    for (const { name, process } of podProcesses(pods)) {
      if (!known.has(name)) signalProcess(process, "SIGKILL");
    }
  }

  /** Sets the function that is called with the key of each Pod whose process changes. Calls it for all current Pods first. */
  onChange(enqueue: (key: string) => void): void {
    this.#enqueue = enqueue;
    void this.#sweep();
    for (const { record } of this.#processes.values()) enqueue(keyOf(record));
  }

  /** Finds the process of a Pod by name, for its log. */
  find(at: { namespace: string; name: string }): PodProcess | undefined {
    const uid = this.#options.informer.store.get(keyOf(at))?.metadata.uid;
    return uid === undefined ? undefined : this.#processes.get(uid);
  }

  async reconcile(key: string): Promise<ReconcileResult> {
    const pod = this.#options.informer.store.get(key);
    await this.#retireOthers(key, pod);
    if (pod === undefined) return;
    if (awaitsNode(pod)) return this.#take(pod);
    if (pod.spec.nodeName !== this.#options.nodeName) return;
    if (pod.metadata.deletionTimestamp !== undefined) return this.#delete(pod);
    if (hasEnded(pod)) return;
    return this.#run(pod);
  }

  /** Keeps the cells' logs small. Call it every few seconds. */
  rotateLogs(): void {
    for (const { directory, record } of this.#processes.values()) {
      try {
        directory.rotateCellLog();
      } catch (error) {
        this.#options.log.warn({ pod: keyOf(record), error: String(error) }, "rotating a cell's log failed");
      }
    }
  }

  /** Stops every Pod and reports the node's shutdown in their status. */
  async shutDown(graceMillis: number): Promise<void> {
    const running = [...this.#processes.values()].filter(({ exit }) => exit === undefined);
    for (const process of running) process.terminate(graceMillis);
    await Promise.all(running.map(({ ended }) => ended));
    await Promise.all(running.map((process) => this.#reportShutDown(process)));
  }

  async #take(pod: NodePod): Promise<ReconcileResult> {
    const { nodeName } = this.#options;
    const { namespace, name, uid } = pod.metadata;
    const bind = this.#resource.postSubresource(pod.metadata, "binding", {
      apiVersion: "v1",
      kind: "Binding",
      metadata: { namespace, name, uid },
      target: { apiVersion: "v1", kind: "Node", name: nodeName },
    });
    // No other scheduler runs here, so the Pod starts while it is bound. If it was deleted, the process is stopped later.
    const [bound, started] = await Promise.allSettled([bind, this.#runAndShow(pod)]);
    if (bound.status === "rejected") {
      const error = RametError.from(bound.reason);
      // Already bound or deleted: a watch event follows.
      if (error.code === "Conflict" || error.code === "NotFound") return;
      throw error;
    }
    if (started.status === "rejected") throw started.reason;
    return started.value;
  }

  async #runAndShow(pod: NodePod): Promise<ReconcileResult> {
    const result = await this.#run(pod);
    const process = this.#processes.get(pod.metadata.uid);
    return process === undefined ? result : this.#show(pod, process);
  }

  async #run(pod: NodePod): Promise<ReconcileResult> {
    const refusal = unsupported(pod);
    if (refusal !== undefined)
      return this.#write(pod, { kind: "refused", reason: "UnsupportedPodSpec", message: refusal });
    const process = this.#processes.get(pod.metadata.uid);
    if (process !== undefined) return this.#show(pod, process);
    if (wasStarted(pod)) return this.#write(pod, lost(pod, this.#options.clock.now()));
    try {
      await this.#start(pod);
    } catch (error) {
      await new PodDirectory(this.#options.pods, pod.metadata.uid).remove();
      await this.#write(pod, waiting(pod, RametError.from(error)));
      return { requeueAfterMilliseconds: retryMilliseconds };
    }
  }

  async #start(pod: NodePod): Promise<void> {
    const taken = new Set([...this.#processes.values()].map(({ record }) => record.ip));
    const onChange = this.#changed(pod.metadata);
    const process = await startPod(this.#options, pod, { taken, onChange });
    this.#processes.set(pod.metadata.uid, process);
    this.#options.log.info({ pod: keyOf(pod.metadata), pid: process.record.process.pid }, "started a Pod");
  }

  async #show(pod: NodePod, process: PodProcess): Promise<ReconcileResult> {
    process.probe(pod);
    if (process.state?.ready === true) this.#options.spares.refill();
    const unreported = unreportedMilliseconds(process);
    if (unreported > 0) return { requeueAfterMilliseconds: unreported };
    const observation = observe(process);
    if (observation !== undefined) await this.#write(pod, observation);
  }

  async #write(pod: NodePod, observation: Observation): Promise<void> {
    const { hostIP, clock } = this.#options;
    const seen = this.#statuses.latest(pod);
    try {
      await this.#statuses.write(pod, podStatus(seen, observation, { hostIP, now: clock.now() }));
    } catch (error) {
      if (RametError.from(error).code !== "NotFound") throw error;
    }
  }

  async #delete(pod: NodePod): Promise<void> {
    const { uid } = pod.metadata;
    const process = this.#processes.get(uid);
    if (process !== undefined && process.exit === undefined) {
      process.terminate(graceMilliseconds(pod));
      return;
    }
    await this.#forget(uid);
    await this.#resource.delete(pod.metadata, { uid, gracePeriodSeconds: 0 });
  }

  /** Stops processes of deleted Pods with this name. */
  async #retireOthers(key: string, pod: NodePod | undefined): Promise<void> {
    for (const process of this.#processes.values()) {
      const { uid } = process.record;
      if (keyOf(process.record) !== key || uid === pod?.metadata.uid) continue;
      if (process.exit === undefined) process.terminate(0);
      else await this.#forget(uid);
    }
  }

  async #forget(uid: string): Promise<void> {
    await new PodDirectory(this.#options.pods, uid).remove();
    this.#processes.delete(uid);
    this.#options.images.released?.();
  }

  /** Removes directories of deleted Pods that a crash prevented from starting. */
  async #sweep(): Promise<void> {
    const { pods, informer, log } = this.#options;
    for (const uid of podDirectories(pods)) {
      if (this.#processes.has(uid) || informer.store.byUid(uid) !== undefined || this.#options.spares.has(uid))
        continue;
      await new PodDirectory(pods, uid).remove().catch((error: unknown) => {
        log.warn({ uid, error: RametError.from(error).message }, "removing a Pod's directory failed");
      });
    }
  }

  async #reportShutDown({ record, state }: PodProcess): Promise<void> {
    const pod = this.#options.informer.store.byUid(record.uid);
    if (pod === undefined || hasEnded(pod)) return;
    await this.#write(pod, {
      kind: "ended",
      ip: record.ip,
      startedAt: record.startedAt,
      finishedAt: this.#options.clock.now().toISOString(),
      exitCode: state?.exitCode ?? 143,
      reason: "NodeShutdown",
      message: "the sandbox was stopped because the local cluster was stopped",
    });
  }

  #changed(at: { namespace: string; name: string }): () => void {
    const key = keyOf(at);
    return () => {
      this.#enqueue(key);
    };
  }
}

function wasStarted(pod: NodePod): boolean {
  return pod.status?.podIP !== undefined;
}

function lost(pod: NodePod, now: Date): Observation {
  return {
    kind: "ended",
    finishedAt: now.toISOString(),
    exitCode: 137,
    reason: "SandboxLost",
    message: "the sandbox was lost while the node was down: no process of the Pod is left",
    ...(pod.status?.podIP !== undefined && { ip: pod.status.podIP }),
    ...(typeof pod.status?.["startTime"] === "string" && { startedAt: pod.status["startTime"] }),
  };
}

function waiting(pod: NodePod, error: RametError): Observation {
  const message = error.hint === undefined ? error.message : `${error.message}. ${error.hint}`;
  if (error.code !== "ImageNotFound") return { kind: "waiting", reason: "CreateContainerError", message };
  const volumes = pod.spec.volumes ?? [];
  const never = volumes.some(
    (volume) => (volume["image"] as { pullPolicy?: string } | undefined)?.pullPolicy === "Never",
  );
  return { kind: "waiting", reason: never ? "ErrImageNeverPull" : "ImagePullBackOff", message };
}
