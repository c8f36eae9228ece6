import type { Checkpoint } from "../../src/api/kinds/checkpoint.ts";
import { Interpreter } from "./interpreter.ts";
import { createCheckpoint, createSandbox, deleteCheckpoint } from "./objects.ts";
import { runDemo, type DemoContext } from "./run-demo.ts";
import { expectEqual } from "./steps.ts";

/**
 * Captures a running Python process, on a cluster on this machine, once with memory and files and once with files only. Clones both
 * checkpoints while the original keeps running and changes.
 */
async function walkThrough({ cluster, steps, signal }: DemoContext): Promise<void> {
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

  await steps.step("Create the sandbox code-demo", async () => {
    await sandbox("code-demo");
    return "the sandbox is Ready";
  });
  await steps.step("Start a Python interpreter in it, set a = 1, write /my-file", async () => {
    const interpreter = interpreters.get("code-demo");
    await interpreter?.start();
    await interpreter?.run("a = 1");
    await interpreter?.writeFile("/my-file", "hello");
    await holds("code-demo", "1", "hello");
    return "print(a) prints 1, and /my-file contains hello";
  });
  for (const [name, contents] of [
    ["checkpoint-mem", ["memory", "filesystem"]],
    ["checkpoint-fs", ["filesystem"]],
  ] as const) {
    await steps.step(`Create ${name}: ${contents.join(" and ")}`, async () => {
      const checkpoint = await createCheckpoint(cluster, {
        name,
        podName: "code-demo",
        contents: [...contents],
        signal,
      });
      checkpoints.push(checkpoint);
      const { checkpointId, ramet } = checkpoint.status ?? {};
      const size = ((ramet?.sizeBytes ?? 0) / 2 ** 20).toFixed(1);
      return `${checkpointId ?? "?"}: ${size} MiB, the sandbox was paused for ${ramet?.pausedMilliseconds ?? "?"} ms`;
    });
  }
  await steps.step("Change the original: a = 2, another /my-file", async () => {
    await interpreters.get("code-demo")?.run("a = 2");
    await interpreters.get("code-demo")?.writeFile("/my-file", "changed");
    await holds("code-demo", "2", "changed");
    return "the original kept running";
  });
  await steps.step("Clone checkpoint-mem", async () => {
    await sandbox("clone-mem", checkpoints[0]?.status?.checkpointId);
    await holds("clone-mem", "1", "hello");
    return "the interpreter continues in the clone: print(a) prints 1, and /my-file contains hello";
  });
  await steps.step("Clone checkpoint-fs", async () => {
    const clone = await sandbox("clone-fs", checkpoints[1]?.status?.checkpointId);
    if (await clone.runs()) throw new Error("an interpreter runs in clone-fs, although its memory was not captured");
    await clone.start();
    await holds("clone-fs", unknown, "hello");
    return `no interpreter runs in the clone; a new one prints ${unknown}; /my-file contains hello`;
  });
  await steps.step("Delete both checkpoints", async () => {
    for (const checkpoint of checkpoints) await deleteCheckpoint(cluster, checkpoint, signal);
    await holds("code-demo", "2", "changed");
    await holds("clone-mem", "1", "hello");
    await holds("clone-fs", unknown, "hello");
    return "the original and both clones keep running";
  });
}

process.exit(await runDemo(walkThrough));
