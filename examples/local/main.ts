import type { Checkpoint } from "../../src/api/checkpoint.ts";
import type { Cluster } from "../../src/cli/cluster/cluster.ts";
import { DemoCluster } from "./demo-cluster.ts";
import { Interpreter } from "./interpreter.ts";
import { createCheckpoint, createSandbox, deleteCheckpoint } from "./objects.ts";
import { expectEqual, Steps } from "./steps.ts";

/**
 * Captures a running Python process with its memory and brings it to life again, on a cluster on this machine: once with
 * memory and files, once with files only, while the original goes on and changes.
 */
async function walkThrough(cluster: Cluster, steps: Steps, signal: AbortSignal): Promise<void> {
  const interpreters = new Map<string, Interpreter>();
  const checkpoints: Checkpoint[] = [];
  const sandbox = async (name: string, checkpointId?: string): Promise<Interpreter> => {
    const ready = await createSandbox(cluster, { name, signal, ...(checkpointId && { checkpointId }) });
    const interpreter = new Interpreter(cluster, ready, signal);
    interpreters.set(name, interpreter);
    return interpreter;
  };
  const holds = async (name: string, a: string, file: string): Promise<void> => {
    const interpreter = interpreters.get(name);
    if (interpreter === undefined) throw new Error(`there is no sandbox ${name}`);
    expectEqual(`a in ${name}`, await interpreter.run("print(a)"), a);
    expectEqual(`/my-file in ${name}`, await interpreter.readFile("/my-file"), file);
  };
  const unknown = "NameError: name 'a' is not defined";

  await steps.step("Make the sandbox code-demo", async () => {
    await sandbox("code-demo");
    return "Ready: it answers under its own identity";
  });
  await steps.step("Start a Python interpreter in it, set a = 1, write /my-file", async () => {
    const interpreter = interpreters.get("code-demo");
    await interpreter?.start();
    await interpreter?.run("a = 1");
    await interpreter?.writeFile("/my-file", "hello");
    await holds("code-demo", "1", "hello");
    return "print(a) says 1, /my-file holds hello";
  });
  for (const [name, contents] of [
    ["checkpoint-mem", ["memory", "filesystem"]],
    ["checkpoint-fs", ["filesystem"]],
  ] as const) {
    await steps.step(`Take ${name}: ${contents.join(" and ")}`, async () => {
      const taken = await createCheckpoint(cluster, { name, podName: "code-demo", contents: [...contents], signal });
      checkpoints.push(taken);
      const { checkpointId, ramet } = taken.status ?? {};
      const size = ((ramet?.sizeBytes ?? 0) / 2 ** 20).toFixed(1);
      return `${checkpointId ?? "?"}: ${size} MiB, the sandbox stood still for ${ramet?.pausedMilliseconds ?? "?"} ms`;
    });
  }
  await steps.step("Change the original: a = 2, another /my-file", async () => {
    await interpreters.get("code-demo")?.run("a = 2");
    await interpreters.get("code-demo")?.writeFile("/my-file", "changed");
    await holds("code-demo", "2", "changed");
    return "it went on running all the time";
  });
  await steps.step("Clone checkpoint-mem", async () => {
    await sandbox("clone-mem", checkpoints[0]?.status?.checkpointId);
    await holds("clone-mem", "1", "hello");
    return "the interpreter runs on there: print(a) says 1, /my-file holds hello";
  });
  await steps.step("Clone checkpoint-fs", async () => {
    const clone = await sandbox("clone-fs", checkpoints[1]?.status?.checkpointId);
    if (await clone.runs()) throw new Error("an interpreter runs in clone-fs, and its memory was not captured");
    await clone.start();
    await holds("clone-fs", unknown, "hello");
    return `no interpreter runs there; a new one says ${unknown}; /my-file holds hello`;
  });
  await steps.step("Delete both checkpoints", async () => {
    for (const checkpoint of checkpoints) await deleteCheckpoint(cluster, checkpoint, signal);
    await holds("code-demo", "2", "changed");
    await holds("clone-mem", "1", "hello");
    await holds("clone-fs", unknown, "hello");
    return "the original and both clones go on as they were";
  });
}

async function main(): Promise<number> {
  const interrupted = new AbortController();
  for (const name of ["SIGINT", "SIGTERM", "SIGHUP"] as const) {
    process.on(name, () => {
      interrupted.abort(new Error("interrupted"));
    });
  }
  const steps = new Steps();
  const demo = await DemoCluster.make();
  const failures: unknown[] = [];
  try {
    let cluster: Cluster | undefined;
    await steps.step("Start a Kubernetes control plane, controllers and a node", async () => {
      cluster = await demo.up(interrupted.signal);
      return "etcd, API server, controller and node run as processes of this user";
    });
    if (cluster !== undefined) await walkThrough(cluster, steps, interrupted.signal);
  } catch (error) {
    if (!interrupted.signal.aborted) failures.push(error);
  }
  const end = steps.step("Take everything down again", async () => {
    const left = await demo.down();
    if (left.length > 0) throw new Error(`this is left: ${left.join("; ")}`);
    return "no process, mount or file of it is left";
  });
  await end.catch((error: unknown) => failures.push(error));
  console.log(`\n${steps.table()}`);
  for (const failure of failures)
    console.error("\nThe demo failed:", failure instanceof Error ? failure.message : failure);
  if (failures.length > 0) return 1;
  if (interrupted.signal.aborted) return 130;
  console.log("\nEverything was as it must be.");
  return 0;
}

process.exit(await main());
