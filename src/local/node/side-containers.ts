import { writeFileSync } from "node:fs";
import { join } from "node:path";
import type { Container } from "../../api/schema/pod-template.ts";
import { Container as ContainerSchema } from "../../api/schema/pod-template.ts";
import { readIfExistsSync } from "../files.ts";
import type { SideStatus } from "./pod-status.ts";
import { SideContainer, type SideKind } from "./side-container.ts";
import type { SideStart } from "./start-side-container.ts";

/** How far the containers of a Pod are that must run before its sandbox. */
export type Initialization = { state: "running" } | { state: "done" } | { state: "failed"; message: string };

/**
 * The containers of a Pod besides the sandbox's, in the order of a kubelet: init containers run one after another, a sidecar
 * among them must have started before the next one, and the ordinary ones start with the sandbox.
 */
export class SideContainers {
  readonly ip: string;
  readonly #initial: readonly SideContainer[];
  readonly #ordinary: readonly SideContainer[];
  #isDone = false;

  constructor(options: Omit<SideStart, "container">) {
    const { pod, directory, ip } = options;
    const make = (kind: SideKind, container: Container): SideContainer =>
      new SideContainer(kind, { ...options, container });
    this.ip = ip;
    directory.make();
    writeFileSync(addressFile(directory.path), ip, { mode: 0o600 });
    const initContainers = (pod.spec.initContainers ?? []).map((one) => ContainerSchema.parse(one));
    this.#initial = initContainers.map((one) => make(one["restartPolicy"] === "Always" ? "sidecar" : "init", one));
    this.#ordinary = pod.spec.containers.slice(1).map((one) => make("ordinary", one));
  }

  /** The address that an earlier run of the node has chosen for the Pod. */
  static knownAddress(directory: string): string | undefined {
    return readIfExistsSync(addressFile(directory));
  }

  /** Starts what may run now. Call it after every change. */
  advance({ sandboxRuns }: { sandboxRuns: boolean }): Initialization {
    // After a restart of the node, its containers are found one by one.
    this.#isDone ||= sandboxRuns;
    for (const container of this.#initial) {
      if (this.#isDone && container.kind === "init") continue;
      if (container.failure !== undefined) return { state: "failed", message: container.failure };
      container.start();
      if (!this.#isDone && !container.isInitialized) return { state: "running" };
    }
    this.#isDone = true;
    if (sandboxRuns) for (const container of this.#ordinary) container.start();
    return { state: "done" };
  }

  find(name: string): SideContainer | undefined {
    return this.#all.find(({ container }) => container.name === name);
  }

  /** Whether a process of any of them is left. */
  get isActive(): boolean {
    return this.#all.some((container) => container.isActive);
  }

  status(): SideStatus {
    const initialized = this.#isDone;
    const counted = initialized ? this.#all.filter(({ kind }) => kind !== "init") : this.#initial;
    const waiting = counted.find(({ isReady }) => !isReady);
    return {
      initContainerStatuses: this.#initial.map((container) => container.status(!initialized)),
      containerStatuses: this.#ordinary.map((container) => container.status(!initialized)),
      initialized,
      problem: waiting && problemOf(waiting),
    };
  }

  /** Ends all of them at the same time. */
  stop(graceMilliseconds: number): void {
    for (const container of this.#all) container.stop(graceMilliseconds);
  }

  /** Ends all but the sidecars, then the sidecars one by one, the last one first. Call it until none is active. */
  stopNext(graceMilliseconds: number): void {
    const others = this.#all.filter(({ kind }) => kind !== "sidecar");
    for (const container of others) container.stop(graceMilliseconds);
    if (others.some(({ isActive }) => isActive)) return;
    for (const sidecar of this.#initial.filter(({ kind }) => kind === "sidecar").reverse()) {
      sidecar.stop(graceMilliseconds);
      if (sidecar.isActive) return;
    }
  }

  async untilEnded(): Promise<void> {
    await Promise.all(this.#all.map((container) => container.untilEnded()));
  }

  get #all(): readonly SideContainer[] {
    return [...this.#initial, ...this.#ordinary];
  }
}

function problemOf({ kind, container, problem }: SideContainer): string {
  const what = kind === "init" ? "init container" : kind === "sidecar" ? "sidecar" : "container";
  return `the ${what} ${container.name} ${kind === "init" ? "has not finished" : "is not ready"}${problem === undefined ? "" : `: ${problem}`}`;
}

function addressFile(directory: string): string {
  return join(directory, "address");
}
