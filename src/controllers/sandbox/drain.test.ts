import { expect, it } from "vitest";
import { ManualClock } from "../../../test/setup/manual-clock.ts";
import { stateWith } from "../../../test/setup/sandbox-state.ts";
import { Checkpoint } from "../../api/kinds/checkpoint.ts";
import { Sandbox } from "../../api/kinds/sandbox.ts";
import { annotations, labels } from "../../api/names/labels.ts";
import { Pod } from "../../api/schema/pod.ts";
import { keyOf, type KubeObject } from "../../kube/object.ts";
import { ObjectStore } from "../../kube/store.ts";
import { Departures } from "../cluster/departures.ts";
import type { Informers } from "../cluster/resources.ts";
import { disruptionCheckpointName, isUnderWay } from "../cluster/pause-checkpoint.ts";
import { Node } from "../nodes/nodes.ts";
import { planSandbox } from "./plan.ts";
import type { SandboxAction } from "./state.ts";

/**
 * A simulation: the plans, the turns and the clock are real; cells, scheduler and API server are tables. It proves neither that memory
 * survives a move nor how long one takes.
 */
const start = new Date("2030-01-01T00:00:00Z");
const captureSeconds = 3;
const bootSeconds = 2;

interface Size {
  nodes: number;
  sandboxes: number;
  /** In each node, in GiB; each sandbox requests one. */
  room: number;
}

class World {
  readonly clock = new ManualClock(start);
  readonly nodes = World.#store<Node>();
  readonly pods = World.#store<Pod>();
  readonly sandboxes = World.#store<Sandbox>();
  readonly requests = new Map<string, number>();
  /** The seconds at which captures began, by key. */
  readonly begun = new Map<string, number>();
  mostMoving = 0;
  mostOnNode = 0;
  /** Pods that no node took. */
  refused = 0;
  readonly #checkpoints = new Map<string, { checkpoint: Checkpoint; doneAt: number }>();
  readonly #started = new Map<string, number>();
  readonly #due = new Map<string, number>();
  #departures: Departures;
  #version = 0;
  #second = 0;

  constructor({ nodes, sandboxes, room }: Size) {
    for (let at = 0; at < nodes; at++) this.addNode(`n${at}`, room);
    this.#departures = this.openDepartures();
    for (let at = 0; at < sandboxes; at++) this.#run(at, `n${at % nodes}`);
  }

  static #store<T extends KubeObject>() {
    return new ObjectStore<T>((error) => {
      throw error;
    });
  }

  /** As another controller process does. */
  openDepartures(): Departures {
    const count = (key: string) => this.requests.set(key, (this.requests.get(key) ?? 0) + 1);
    const departures = new Departures({
      termsOfVolumes: () => Promise.resolve([]),
      requestsOfOthers: () => {
        count("all");
        return Promise.resolve(new Map());
      },
      nodes: { store: this.nodes },
      informers: { pods: { store: this.pods }, sandboxes: { store: this.sandboxes } } as unknown as Informers,
      nodeCpus: { covers: () => true },
      clock: this.clock,
    });
    departures.onChange((keys) => {
      for (const key of keys) this.#due.set(key, this.#second);
    });
    return (this.#departures = departures);
  }

  addNode(name: string, room: number, unschedulable = false): void {
    const labelled = { "kubernetes.io/arch": "amd64" };
    const allocatable = { cpu: "64", memory: `${room}Gi`, pods: "1000" };
    const status = { conditions: [{ type: "Ready", status: "True" }], allocatable };
    const metadata = { name, uid: name, resourceVersion: `${++this.#version}`, labels: labelled };
    this.nodes.put(Node.parse({ metadata, spec: { unschedulable }, status }));
  }

  on(name: string): Sandbox[] {
    return this.sandboxes.list().filter(({ status }) => status?.phase === "Running" && status.nodeName === name);
  }

  async run(seconds: number): Promise<void> {
    for (const end = this.#second + seconds; this.#second < end;) {
      this.#second += 1;
      this.clock.advance(1_000);
      this.#complete();
      const due = [...this.#due].filter(([, at]) => at <= this.#second).map(([key]) => key);
      for (const key of due) {
        this.#due.delete(key);
        await this.#reconcile(key);
      }
      this.#measure();
    }
  }

  #complete(): void {
    for (const [key, { checkpoint, doneAt }] of this.#checkpoints) {
      if (doneAt !== this.#second) continue;
      const status = { ...checkpoint.status, phase: "Succeeded" as const, checkpointId: checkpoint.metadata.name };
      this.#checkpoints.set(key, { checkpoint: { ...checkpoint, status }, doneAt });
      this.#due.set(key, this.#second);
    }
    for (const [key, at] of this.#started) if (at === this.#second) this.#due.set(key, at);
  }

  async #reconcile(key: string): Promise<void> {
    const sandbox = this.sandboxes.get(key);
    const pod = this.pods.get(key);
    if (sandbox === undefined) return;
    const departure = await this.#departures.of(sandbox, pod);
    const isStarted = (this.#started.get(key) ?? Infinity) <= this.#second;
    const checkpoint = this.#checkpoints.get(key)?.checkpoint;
    const isOfPod = checkpoint?.metadata.name === disruptionCheckpointName(sandbox);
    const plan = planSandbox(
      stateWith({
        sandbox,
        pod,
        departure,
        now: this.clock.now(),
        pauseCheckpoint: isOfPod ? checkpoint : undefined,
        orphans: checkpoint === undefined || isOfPod ? [] : [checkpoint],
        start: isStarted ? { state: "done", value: { generation: 2, phases: {} } } : undefined,
      }),
    );
    for (const action of plan.actions) this.#apply(sandbox, action);
    const { status } = plan;
    if (status !== undefined && JSON.stringify(status) !== JSON.stringify(sandbox.status)) {
      this.#count(key);
      const metadata = { ...sandbox.metadata, resourceVersion: `${++this.#version}` };
      this.sandboxes.put({ ...sandbox, metadata, status });
      this.#due.set(key, this.#second + 1);
    }
    const { requeueAfterMilliseconds: again } = plan;
    if (again !== undefined && !this.#due.has(key)) this.#due.set(key, this.#second + Math.ceil(again / 1_000));
  }

  #apply(sandbox: Sandbox, action: SandboxAction): void {
    const key = keyOf(sandbox.metadata);
    if (action.do !== "startSandbox" && action.do !== "intendEnd") this.#count(key);
    switch (action.do) {
      case "createPauseCheckpoint": {
        this.begun.set(key, this.#second);
        const name = disruptionCheckpointName(sandbox);
        const metadata = { ...sandbox.metadata, name, uid: name, labels: { [labels.purpose]: "pause" } };
        const checkpoint = Checkpoint.parse({
          apiVersion: sandbox.apiVersion,
          kind: "Checkpoint",
          metadata,
          spec: { sandboxName: sandbox.metadata.name },
          status: { phase: "Creating" },
        });
        this.#checkpoints.set(key, { checkpoint, doneAt: this.#second + captureSeconds });
        return;
      }
      case "deletePod":
        this.pods.remove(action.pod, true);
        break;
      case "createPod":
        this.#schedule(sandbox, Number(sandbox.metadata.annotations?.["priority"]));
        break;
      case "startSandbox":
        // The cell joins repeated calls.
        if (!this.#started.has(key)) this.#started.set(key, this.#second + bootSeconds);
        return;
      case "deleteCheckpoint":
        this.#checkpoints.delete(key);
        return;
      default:
        throw new Error(`the simulation has no ${action.do}`);
    }
    this.#due.set(key, this.#second + 1);
  }

  /** Takes the node with the most memory left, as the scheduler does. */
  #schedule({ metadata }: Sandbox, priority: number): void {
    this.#started.delete(keyOf(metadata));
    const free = (name: string, size: number) =>
      size - this.pods.list().filter(({ spec }) => spec.nodeName === name).length;
    const found = this.nodes
      .list()
      .filter(({ spec }) => spec.unschedulable !== true)
      .map((node) => ({ name: node.metadata.name, left: free(node.metadata.name, sizeOf(node)) }))
      .filter(({ left }) => left > 0)
      .sort((a, b) => b.left - a.left)[0];
    if (found === undefined) this.refused += 1;
    else this.#putPod(metadata, found.name, priority);
  }

  #putPod({ name, namespace }: Sandbox["metadata"], nodeName: string, priority: number): Pod {
    const uid = `pod-${++this.#version}`;
    const creationTimestamp = this.clock.now().toISOString();
    const requests = { memory: "1Gi" };
    const pod = Pod.parse({
      metadata: {
        name,
        namespace,
        uid,
        resourceVersion: uid,
        creationTimestamp,
        annotations: { [annotations.onDisruption]: "Migrate" },
      },
      spec: { nodeName, priority, containers: [{ name: "main", image: "cell", resources: { requests } }] },
      status: { phase: "Running", podIP: "10.0.0.1" },
    });
    this.pods.put(pod);
    return pod;
  }

  #run(at: number, nodeName: string): void {
    const [name, namespace, priority] = [`s${at}`, `t${at % 5}`, (at * 7) % 3];
    const creationTimestamp = new Date(start.getTime() - ((at * 37) % 1_000) * 1_000).toISOString();
    const finalizers = ["agents.kruise.io/sandbox"];
    const own = { name, namespace, uid: name, creationTimestamp, finalizers, annotations: { priority: `${priority}` } };
    const metadata = { ...own, resourceVersion: `${++this.#version}` };
    const pod = this.#putPod(Sandbox.shape.metadata.parse(metadata), nodeName, priority);
    const lastTransitionTime = start.toISOString();
    const conditions = [{ type: "Ready", status: "True", reason: "PodReady", message: "", lastTransitionTime }];
    const podInfo = { podUID: pod.metadata.uid, nodeName };
    this.sandboxes.put(
      Sandbox.parse({
        apiVersion: "agents.kruise.io/v1alpha1",
        kind: "Sandbox",
        metadata,
        spec: {},
        status: { phase: "Running", nodeName, podInfo, conditions },
      }),
    );
  }

  #count(key: string): void {
    this.requests.set(key, (this.requests.get(key) ?? 0) + 1);
  }

  #measure(): void {
    const moving = this.sandboxes
      .list()
      .filter(({ status }) => status?.phase === "Running" && isUnderWay(status.ramet?.disruption));
    const byNode = Map.groupBy(moving, ({ status }) => status?.nodeName);
    this.mostMoving = Math.max(this.mostMoving, moving.length);
    this.mostOnNode = Math.max(this.mostOnNode, ...[...byNode.values()].map((all) => all.length));
  }
}

function sizeOf({ status }: Node): number {
  return Number.parseInt(String(status.allocatable?.["memory"]), 10);
}

function expectBounded(world: World): void {
  expect(world.mostMoving).toBeLessThanOrEqual(16);
  expect(world.mostOnNode).toBeLessThanOrEqual(4);
  expect(world.refused).toBe(0);
  for (const [key, count] of world.requests) if (key !== "all") expect(count).toBeLessThanOrEqual(10);
}

it("empties a node with 50 of 500 sandboxes in the order of priority and age, loses none and overfills no node", async () => {
  const world = new World({ nodes: 10, sandboxes: 500, room: 60 });
  const leaving = world.on("n0").map(({ metadata }) => metadata);
  world.addNode("n0", 60, true);
  await world.run(200);
  expect([leaving.length, world.on("n0").length]).toEqual([50, 0]);
  expect(world.sandboxes.list().filter(({ status }) => status?.phase === "Running").length).toBe(500);
  expectBounded(world);
  const rank = (one: (typeof leaving)[number]) => [-Number(one.annotations?.["priority"]), one.creationTimestamp];
  const isBefore = ([a = 0, b = ""]: (string | number)[], [c = 0, d = ""]: (string | number)[]) =>
    a < c || (a === c && b <= d);
  for (const one of leaving)
    for (const other of leaving) {
      const [first = 0, second = 0] = [one, other].map((it) => world.begun.get(keyOf(it)));
      if (first < second) expect(isBefore(rank(one), rank(other))).toBe(true);
    }
});

it("moves only as many sandboxes as other nodes have room for, and the others run on", async () => {
  const world = new World({ nodes: 4, sandboxes: 200, room: 60 });
  world.addNode("n0", 60, true);
  await world.run(200);
  expect(world.on("n0").length).toBe(20);
  expect(world.on("n0").every(({ status }) => status?.ramet?.noTarget !== undefined)).toBe(true);
  expectBounded(world);
});

it("empties a pool of ten nodes with 500 sandboxes although the controllers restart, and loses none", async () => {
  const world = new World({ nodes: 10, sandboxes: 500, room: 60 });
  for (let at = 0; at < 10; at++) {
    world.addNode(`new${at}`, 60);
    world.addNode(`n${at}`, 60, true);
  }
  await world.run(60);
  world.openDepartures();
  await world.run(600);
  const running = world.sandboxes.list().filter(({ status }) => status?.phase === "Running");
  expect(running.filter(({ status }) => status?.nodeName?.startsWith("new") === true).length).toBe(500);
  expectBounded(world);
}, 60_000);
