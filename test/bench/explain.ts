import { spawn } from "node:child_process";
import { once } from "node:events";
import { text } from "node:stream/consumers";
import { type SandboxSet, sandboxSetKind } from "../../src/api/kinds/sandbox-set.ts";
import { labels } from "../../src/api/names/labels.ts";
import { apiVersion } from "../../src/api/schema/kind.ts";
import { installCrds } from "../../src/controllers/install-crds.ts";
import { sandboxResources } from "../../src/controllers/cluster/resources.ts";
import { KubeClient } from "../../src/kube/kube-client.ts";
import { builtPrograms } from "../setup/built-package.ts";
import { startControlPlane } from "../setup/control-plane.ts";
import { FinishedObjects, nameOf, namespaceOf, type ObjectCounts } from "./finished-objects.ts";
import { summary, type Summary } from "./samples.ts";

/** The time of each command with this number of objects. */
export interface ExplainPoint {
  objects: ObjectCounts & { members: number };
  commands: { command: string; milliseconds: Summary }[];
}

/**
 * Runs `ramet explain` and `ramet doctor` as a user does, each as a process of its own, against a real API server: first with
 * few objects, then with many. **The objects are simulated**, see `FinishedObjects`; no controller and no node runs, so
 * `doctor` reports errors.
 *
 * @param most Sandboxes, and twice as many Checkpoints
 * @throws Error if a command does not explain what it was asked about
 */
export async function measureExplain(
  { most, n }: { most: number; n: number },
  signal: AbortSignal,
): Promise<ExplainPoint[]> {
  const controlPlane = await startControlPlane({ apis: "all", signal });
  const client = new KubeClient(controlPlane.connection);
  try {
    await installCrds(client, signal);
    const finished = new FinishedObjects(client);
    const set = new UnfilledSet(client);
    const points: ExplainPoint[] = [];
    for (const count of [Math.min(few, most), most]) {
      const objects = await finished.grow(count, signal);
      const members = Math.min(count, mostMembers);
      await set.grow(members, signal);
      const commands = await measureCommands(controlPlane.kubeconfigPath, n, signal);
      points.push({ objects: { ...objects, members }, commands });
    }
    return points;
  } finally {
    await client.close();
    await controlPlane.stop();
  }
}

const few = 20;
const mostMembers = 1_000;
const namespace = namespaceOf(0);

/** The exit code, and what the output must contain. The first one is what the others are compared with. */
const commands = [
  { args: ["sandbox", "get", nameOf(0)], exitCode: 0, output: /Running/ },
  { args: ["doctor"], exitCode: 1, output: /store/ },
  { args: ["explain", `sandbox/${nameOf(0)}`], exitCode: 0, output: /NodeNotFound/ },
  { args: ["explain", `checkpoint/${nameOf(0)}-1`], exitCode: 0, output: /It can be cloned/ },
  { args: ["explain", "set/pool"], exitCode: 0, output: /sandbox\/unready/ },
] as const;

/** Takes turns, so that other load on the machine affects all commands. The first turn is a warm-up. */
async function measureCommands(kubeconfig: string, n: number, signal: AbortSignal): Promise<ExplainPoint["commands"]> {
  const values = commands.map(() => [] as number[]);
  for (let turn = 0; turn <= n; turn++) {
    for (const [index, command] of commands.entries()) {
      signal.throwIfAborted();
      const start = performance.now();
      await run(command, kubeconfig);
      if (turn > 0) values[index]?.push(performance.now() - start);
    }
    process.stderr.write(`\rexplain: ${turn}/${n} `);
  }
  process.stderr.write("\r\x1b[K");
  return commands.flatMap(({ args }, index) => {
    const milliseconds = summary(values[index] ?? []);
    return milliseconds === undefined ? [] : [{ command: args.join(" "), milliseconds }];
  });
}

async function run({ args, exitCode, output }: (typeof commands)[number], kubeconfig: string): Promise<void> {
  const [program, main] = builtPrograms.ramet;
  const all = [main, ...args, "--kubeconfig", kubeconfig, "-n", namespace];
  const child = spawn(program, all, { stdio: ["ignore", "pipe", "inherit"] });
  const [stdout] = await Promise.all([text(child.stdout), once(child, "close")]);
  if (child.exitCode === exitCode && output.test(stdout)) return;
  throw new Error(`ramet ${args.join(" ")} exited with ${child.exitCode ?? "a signal"} and printed: ${stdout}`);
}

/** A SandboxSet whose members are all ready but the youngest one. **It stands in for the set's controller.** */
class UnfilledSet {
  readonly #client: KubeClient;
  #set: SandboxSet | undefined;
  #members = 0;

  constructor(client: KubeClient) {
    this.#client = client;
  }

  /** Writes the missing members, then the youngest one again. */
  async grow(members: number, signal: AbortSignal): Promise<void> {
    const set = (this.#set ??= await this.#create());
    while (this.#members < members) {
      signal.throwIfAborted();
      await this.#write(set, `member-${this.#members++}`, true);
    }
    await this.#client.resource(sandboxResources.sandboxes).delete({ namespace, name: "unready" });
    await this.#write(set, "unready", false);
  }

  async #create(): Promise<SandboxSet> {
    const sets = this.#client.of(sandboxSetKind);
    const metadata = { name: "pool", namespace };
    await sets.create({ apiVersion, kind: "SandboxSet", metadata, spec: { replicas: mostMembers, template } });
    const conditions = [notReady("Filling", `0 of ${mostMembers} sandboxes are available; unready: ${problem}`)];
    const status = { observedGeneration: 1, replicas: mostMembers, availableReplicas: 0, conditions };
    return sets.mergePatch(metadata, { status }, { subresource: "status" });
  }

  async #write({ metadata }: SandboxSet, name: string, isReady: boolean): Promise<void> {
    const sandboxes = this.#client.resource(sandboxResources.sandboxes);
    const owner = { apiVersion, kind: "SandboxSet", name: metadata.name, uid: metadata.uid, controller: true };
    const own = { name, namespace, labels: { [labels.sandboxPool]: metadata.name }, ownerReferences: [owner] };
    await sandboxes.create({ apiVersion, kind: "Sandbox", metadata: own, spec: { template } });
    const condition = isReady ? { ...notReady("PodReady", ""), status: "True" } : notReady("SandboxPending", problem);
    const status = { observedGeneration: 1, phase: isReady ? "Running" : "Pending", conditions: [condition] };
    await sandboxes.mergePatch({ name, namespace }, { status }, { subresource: "status" });
  }
}

const problem = "The template is not valid. Correct it [InvalidArgument]";
const template = { spec: { containers: [{ name: "main", image: "python" }] } };

function notReady(reason: string, message: string) {
  const lastTransitionTime = new Date().toISOString().replace(/\.\d+Z$/, "Z");
  return { type: "Ready", status: "False", reason, message, lastTransitionTime };
}
