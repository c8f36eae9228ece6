import { defined } from "../../base/defined.ts";
import { RametError, textOfError, unlessCode } from "../../base/errors.ts";
import type { ReconcileResult } from "../../kube/controller.ts";
import type { Informer } from "../../kube/informer.ts";
import type { Log } from "../../base/log.ts";
import { keyOf } from "../../kube/object.ts";
import type { ResourceClient } from "../../kube/resource-client.ts";
import { StatusWriter } from "../../kube/status-writer.ts";
import { signalProcess } from "../../base/process-identity.ts";
import { observe, unreportedMilliseconds } from "./observe.ts";
import { PodDirectory, podDirectories } from "./pod-directory.ts";
import { PodProcess } from "./pod-process.ts";
import { podStatus, type Observation } from "./pod-status.ts";
import { awaitsNode, graceMilliseconds, hasEnded, hasSideContainers, type NodePod, waitingFor } from "./pod.ts";
import { chooseAddress, type PodStarterOptions, startPod } from "./start-pod.ts";
import { sandboxConfig } from "./cell-environment.ts";
import { SideContainers } from "./side-containers.ts";
import { killPod, podProcesses } from "./launch-pod.ts";
import { unsupported } from "./unsupported.ts";

export interface PodRunnerOptions extends PodStarterOptions {
  informer: Informer<NodePod>;
  log: Log;
}

/** Pause before a failed start of a Pod is retried (missing image, object or program). */
const retryMilliseconds = 2_000;
const minimumGraceMilliseconds = 2_000;

/** The log of a container. */
export interface ContainerLog {
  path: string;
  /** That of its previous run; a sandbox has none. */
  previousPath?: string;
  /** Resolves when the container has ended. */
  ended: Promise<unknown>;
}

/** Starts and stops processes as the Pods specify, and reports their state in the Pods' status. */
export class PodRunner {
  readonly #options: PodRunnerOptions;
  readonly #resource: ResourceClient<NodePod>;
  readonly #statuses: StatusWriter<NodePod>;
  /** By the Pod's UID. */
  readonly #processes = new Map<string, PodProcess>();
  /** The further containers of Pods that have any, by the Pod's UID. */
  readonly #sides = new Map<string, SideContainers>();
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
      // Other containers of a Pod are adopted when the Pod is known.
      const isRecorded = name.includes("/") && new PodDirectory(pods, name).readRecord() !== undefined;
      if (!known.has(name) && !isRecorded) signalProcess(process, "SIGKILL");
    }
  }

  /** Sets the function that is called with the key of each Pod whose process changes. Calls it for all current Pods first. */
  onChange(enqueue: (key: string) => void): void {
    this.#enqueue = enqueue;
    void this.#sweep();
    for (const { record } of this.#processes.values()) enqueue(keyOf(record));
  }

  /** Finds the log of a container of a Pod by names. */
  findLog(at: { namespace: string; name: string }, container: string): ContainerLog | undefined {
    const uid = this.#options.informer.store.get(keyOf(at))?.metadata.uid;
    if (uid === undefined) return undefined;
    const side = this.#sides.get(uid)?.find(container);
    if (side !== undefined) {
      return { path: side.directory.entrypointLog, previousPath: side.previousLog, ended: side.untilEnded() };
    }
    const process = this.#processes.get(uid);
    return process && { path: process.directory.entrypointLog, ended: process.ended };
  }

  async reconcile(key: string): Promise<ReconcileResult> {
    const pod = this.#options.informer.store.get(key);
    await this.#retireOthers(key, pod);
    if (pod === undefined) return;
    if (awaitsNode(pod)) return this.#take(pod);
    if (pod.spec.nodeName !== this.#options.nodeName) return;
    if (pod.metadata.deletionTimestamp !== undefined) return this.#delete(pod);
    if (hasEnded(pod)) return this.#stopSides(pod);
    return this.#run(pod);
  }

  /** Keeps the cells' logs small. Call it every few seconds. */
  rotateLogs(): void {
    for (const { directory, record } of this.#processes.values()) {
      try {
        directory.rotateCellLog();
      } catch (error) {
        this.#options.log.warn({ pod: keyOf(record), error: textOfError(error) }, "rotating a cell's log failed");
      }
    }
  }

  /** Stops every Pod and reports the node's shutdown in their status. */
  async shutDown(graceMillis: number): Promise<void> {
    const running = [...this.#processes.values()].filter(({ exit }) => exit === undefined);
    for (const process of running) process.terminate(graceMillis, "SIGINT");
    await Promise.all(running.map(({ ended }) => ended));
    const sides = [...this.#sides.values()];
    for (const one of sides) one.stop(graceMillis);
    await Promise.all(sides.map((one) => one.untilEnded()));
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
    const sides = await this.#sidesOf(pod);
    if (process !== undefined) {
      if (process.exit === undefined) sides?.advance({ sandboxRuns: true });
      return this.#show(pod, process);
    }
    if (wasStarted(pod)) return this.#write(pod, lost(pod, this.#options.clock.now()));
    return this.#initialize(pod, sides);
  }

  /** Starts the sandbox, after the containers that must run before it. */
  async #initialize(pod: NodePod, sides: SideContainers | undefined): Promise<ReconcileResult> {
    const initialization = sides?.advance({ sandboxRuns: false });
    if (initialization?.state === "failed") return this.#endInitialization(pod, initialization.message);
    if (initialization?.state === "running")
      return this.#write(pod, { kind: "waiting", reason: "PodInitializing", message: "" });
    try {
      await this.#start(pod, sides?.ip);
    } catch (error) {
      if (sides === undefined) await new PodDirectory(this.#options.pods, pod.metadata.uid).remove();
      await this.#write(pod, { kind: "waiting", ...waitingFor(RametError.from(error), imagePullPolicy(pod)) });
      return { requeueAfterMilliseconds: retryMilliseconds };
    }
  }

  async #sidesOf(pod: NodePod): Promise<SideContainers | undefined> {
    const { uid } = pod.metadata;
    const known = this.#sides.get(uid);
    if (known !== undefined || !hasSideContainers(pod)) return known;
    const directory = new PodDirectory(this.#options.pods, uid);
    const ip = SideContainers.knownAddress(directory.path) ?? (await chooseAddress(uid, this.#takenAddresses()));
    const { clock } = this.#options;
    const onChange = this.#changed(pod.metadata);
    const sides = new SideContainers({ pod, directory, ip, starter: this.#options, clock, onChange });
    this.#sides.set(uid, sides);
    return sides;
  }

  /** An init container has failed, and is not run again: no container of a sandbox's Pod is. */
  async #endInitialization(pod: NodePod, message: string): Promise<void> {
    this.#sides.get(pod.metadata.uid)?.stop(graceMilliseconds(pod));
    const finishedAt = this.#options.clock.now().toISOString();
    await this.#write(pod, { kind: "ended", finishedAt, exitCode: 1, reason: "InitContainerFailed", message });
  }

  /** The sandbox has ended. Its sidecars have no more to do. */
  async #stopSides(pod: NodePod): Promise<void> {
    (await this.#sidesOf(pod))?.stop(graceMilliseconds(pod));
  }

  #takenAddresses(): ReadonlySet<string> {
    const processes = [...this.#processes.values()].map(({ record }) => record.ip);
    return new Set([...processes, ...[...this.#sides.values()].map(({ ip }) => ip)]);
  }

  async #start(pod: NodePod, ip: string | undefined): Promise<void> {
    const onChange = this.#changed(pod.metadata);
    const process = await startPod(this.#options, pod, { taken: this.#takenAddresses(), onChange, ip });
    this.#processes.set(pod.metadata.uid, process);
    this.#options.log.info({ pod: keyOf(pod.metadata), pid: process.record.process.pid }, "started a Pod");
  }

  async #show(pod: NodePod, process: PodProcess): Promise<ReconcileResult> {
    careFor(pod, process);
    // As with a kubelet, the container does not run until its postStart hook has ended.
    if (process.isStarting && process.exit === undefined) return;
    if (process.state?.ready === true) this.#options.spares.refill();
    const unreported = unreportedMilliseconds(process);
    if (unreported > 0) return { requeueAfterMilliseconds: unreported };
    const observation = observe(process);
    if (observation !== undefined) await this.#write(pod, observation);
  }

  async #write(pod: NodePod, observation: Observation): Promise<void> {
    const { hostIP, clock } = this.#options;
    const seen = this.#statuses.latest(pod);
    const sides = this.#sides.get(pod.metadata.uid)?.status();
    const status = podStatus(seen, observation, { hostIP, now: clock.now(), sides });
    await this.#statuses.write(pod, status).catch(unlessCode("NotFound"));
  }

  async #delete(pod: NodePod): Promise<void> {
    const { uid } = pod.metadata;
    const process = this.#processes.get(uid);
    if (process !== undefined && process.exit === undefined) {
      process.terminate(graceMilliseconds(pod));
      return;
    }
    const sides = await this.#sidesOf(pod);
    sides?.stopNext(this.#graceLeft(pod));
    if (sides?.isActive === true) return;
    await this.#forget(uid);
    await this.#resource.delete(pod.metadata, { uid, gracePeriodSeconds: 0 });
  }

  /** A sidecar has at least two seconds after the sandbox, as with a kubelet. */
  #graceLeft({ metadata }: NodePod): number {
    const end = new Date(metadata.deletionTimestamp ?? 0).getTime();
    return Math.max(minimumGraceMilliseconds, end - this.#options.clock.now().getTime());
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
    // Those of an earlier run of the node may not be known.
    if (this.#sides.delete(uid) || this.#hasAddress(uid)) killPod(this.#options.pods, uid);
    await new PodDirectory(this.#options.pods, uid).remove();
    this.#processes.delete(uid);
    this.#options.images.released?.();
  }

  #hasAddress(uid: string): boolean {
    return SideContainers.knownAddress(new PodDirectory(this.#options.pods, uid).path) !== undefined;
  }

  /** Removes directories of deleted Pods that a crash prevented from starting. */
  async #sweep(): Promise<void> {
    const { pods, informer, log, spares } = this.#options;
    // All are found before one is removed: a spare that a Pod takes meanwhile is none any more.
    const orphans = podDirectories(pods).filter(
      (uid) => !this.#processes.has(uid) && informer.store.byUid(uid) === undefined && !spares.has(uid),
    );
    for (const uid of orphans) {
      killPod(pods, uid);
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
    ...defined({ ip: pod.status?.podIP }),
    ...(typeof pod.status?.["startTime"] === "string" && { startedAt: pod.status["startTime"] }),
  };
}

/** Starts the probes and hooks of the sandbox's container. */
function careFor(pod: NodePod, process: PodProcess): void {
  const [container] = pod.spec.containers;
  if (container === undefined || process.state === undefined) return;
  const graceSeconds = pod.spec.terminationGracePeriodSeconds ?? 30;
  const isClone = sandboxConfig(pod).start === "wait";
  process.careFor({ container, graceSeconds, isClone, before: pod.status?.containerStatuses?.[0] });
}

function imagePullPolicy({ spec }: NodePod): string | undefined {
  const images = (spec.volumes ?? []).map((volume) => volume["image"] as { pullPolicy?: string } | undefined);
  return images.some((image) => image?.pullPolicy === "Never") ? "Never" : undefined;
}
