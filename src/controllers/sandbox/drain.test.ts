import { expect, it } from "vitest";
import { ManualClock } from "../../../test/setup/manual-clock.ts";
import { stateWith } from "../../../test/setup/sandbox-state.ts";
import { Checkpoint } from "../../api/kinds/checkpoint.ts";
import { Sandbox } from "../../api/kinds/sandbox.ts";
import { annotations, labels } from "../../api/names/labels.ts";
import { Pod } from "../../api/schema/pod.ts";
import { isNodeReady } from "../../api/state/node.ts";
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
/** A call to a node that does not respond fails after that. */
const silenceSeconds = 10;

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
  readonly #automatic = new Map<string, Checkpoint>();
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

  /** The node responds no more, and the API server has its Pods ended, which nobody does. */
  silence(name: string): void {
    const node = this.nodes.get(name)!;
    const taints = [{ key: "node.kubernetes.io/unreachable", value: "", effect: "NoExecute" }];
    const conditions = [{ type: "Ready", status: "Unknown" }];
    const resourceVersion = `${++this.#version}`;
    this.nodes.put({
      metadata: { ...node.metadata, resourceVersion },
      spec: { ...node.spec, taints },
      status: { ...node.status, conditions },
    });
    const ends = { deletionTimestamp: this.clock.now().toISOString(), deletionGracePeriodSeconds: 30 };
    for (const pod of this.#podsOn(name)) {
      const metadata = { ...pod.metadata, ...ends, resourceVersion: `${++this.#version}` };
      const disrupted = { type: "DisruptionTarget", status: "True", reason: "DeletionByTaintManager" } as const;
      this.pods.put({ ...pod, metadata, status: { ...pod.status, conditions: [disrupted] } });
      this.#due.set(keyOf(pod.metadata), this.#second);
    }
  }

  /** Somebody deletes the node, and Kubernetes removes its Pods. */
  removeNode(name: string): void {
    this.nodes.remove(this.nodes.get(name)!, true);
    for (const pod of this.#podsOn(name)) {
      this.pods.remove(pod, true);
      this.#due.set(keyOf(pod.metadata), this.#second);
    }
  }

  /** Every second sandbox of the node has an automatic checkpoint. */
  addCheckpoints(name: string): void {
    for (const sandbox of this.on(name).filter((_, at) => at % 2 === 0)) {
      const status = { phase: "Succeeded", checkpointId: `auto-${sandbox.metadata.name}` };
      this.#automatic.set(
        keyOf(sandbox.metadata),
        checkpointOf(sandbox, { name: "automatic", purpose: "automatic", status }),
      );
    }
  }

  #podsOn(name: string): Pod[] {
    return this.pods.list().filter(({ spec }) => spec.nodeName === name);
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
      const { name } = checkpoint.metadata;
      const completionTime = this.clock.now().toISOString();
      const status: Checkpoint["status"] = this.#isSilent(this.pods.get(key))
        ? { phase: "Failed" as const, completionTime, ramet: { problems: { Ready: unreachable } } }
        : { ...checkpoint.status, phase: "Succeeded" as const, checkpointId: name };
      this.#checkpoints.set(key, { checkpoint: { ...checkpoint, status }, doneAt });
      this.#due.set(key, this.#second);
    }
    for (const [key, at] of this.#started) if (at === this.#second) this.#due.set(key, at);
  }

  #isSilent(pod: Pod | undefined): boolean {
    const node = this.nodes.get(pod?.spec.nodeName ?? "");
    return node !== undefined && !isNodeReady(node);
  }

  async #reconcile(key: string): Promise<void> {
    const sandbox = this.sandboxes.get(key);
    const pod = this.pods.get(key);
    if (sandbox === undefined) return;
    const departure = await this.#departures.of(sandbox, pod);
    const isStarted = (this.#started.get(key) ?? Infinity) <= this.#second;
    const checkpoint = this.#checkpoints.get(key)?.checkpoint;
    const isOfPod = checkpoint?.metadata.name === disruptionCheckpointName(sandbox);
    const ofPod = isOfPod ? checkpoint : undefined;
    const automatic = this.#automatic.get(key);
    const { phase, ramet } = sandbox.status ?? {};
    const continues = phase !== "Running" && ramet?.disruption?.checkpoint !== undefined;
    const plan = planSandbox(
      stateWith({
        sandbox,
        pod,
        departure,
        isNodeSilent: this.#isSilent(pod),
        automatic: automatic === undefined ? [] : [automatic],
        now: this.clock.now(),
        pauseCheckpoint: continues ? automatic : ofPod,
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
    if (action.do !== "startSandbox") this.#count(key);
    switch (action.do) {
      case "createPauseCheckpoint": {
        this.begun.set(key, this.#second);
        const name = disruptionCheckpointName(sandbox);
        const checkpoint = checkpointOf(sandbox, { name, purpose: "pause", status: { phase: "Creating" } });
        const seconds = this.#isSilent(this.pods.get(key)) ? silenceSeconds : captureSeconds;
        this.#checkpoints.set(key, { checkpoint, doneAt: this.#second + seconds });
        return;
      }
      case "deletePod":
        this.pods.remove(action.pod, true);
        break;
      case "intendEnd":
        return;
      case "createPod":
        if (this.pods.get(key) !== undefined) throw new Error(`two copies of ${key}`);
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
    const podInfo = { podUID: pod.metadata.uid, nodeName, annotations: pod.metadata.annotations };
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

const unreachable = { code: "Unavailable", cause: "the cell does not respond" };

function checkpointOf(
  { apiVersion, metadata: own }: Sandbox,
  { name, purpose, status }: { name: string; purpose: string; status: object },
): Checkpoint {
  const metadata = { ...own, name, uid: name, labels: { [labels.purpose]: purpose } };
  return Checkpoint.parse({ apiVersion, kind: "Checkpoint", metadata, spec: { sandboxName: own.name }, status });
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

it("waits for a silent node with 50 of 500 sandboxes, and when it is removed continues those that have a checkpoint", async () => {
  const world = new World({ nodes: 10, sandboxes: 500, room: 60 });
  world.addCheckpoints("n0");
  const keys = world.on("n0").map(({ metadata }) => keyOf(metadata));
  world.silence("n0");
  await world.run(1_200);
  expect(world.on("n0").map(({ metadata }) => keyOf(metadata))).toEqual(keys);
  // Each capture fails, and is repeated after 5 min.
  for (const [key, count] of world.requests) if (key !== "all") expect(count, key).toBeLessThanOrEqual(30);
  world.requests.clear();
  world.removeNode("n0");
  await world.run(400);
  const ended = Object.groupBy(keys, (key) => world.sandboxes.get(key)?.status?.phase ?? "");
  expect(ended).toEqual({ Running: keys.filter((_, at) => at % 2 === 0), Failed: expect.any(Array) as unknown });
  expect(world.sandboxes.list().filter(({ status }) => status?.phase === "Running").length).toBe(475);
  expect(world.refused).toBe(0);
  for (const [key, count] of world.requests) if (key !== "all") expect(count, key).toBeLessThanOrEqual(10);
}, 60_000);
