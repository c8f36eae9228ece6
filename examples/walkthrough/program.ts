import { fileURLToPath } from "node:url";
import { answerOf } from "../../test/engine/answer-of.ts";
import type { Engine, RunResult } from "../../test/engine/engine.ts";
import { openEngine } from "../../test/engine/open-engine.ts";
import { ProgramDirectory } from "../../test/engine/program-directory.ts";
import { CommandLine } from "./command-line.ts";
import { runDemo, type DemoContext } from "./run-demo.ts";
import { SetWatch } from "./set-watch.ts";
import { expectEqual } from "./steps.ts";
import { succeeded } from "./succeeded.ts";

/** The number of replicas in the program. */
const replicas = 10;
const set = "pool";
const at = { namespace: "default", name: "python-data" };

/**
 * Shows how a platform team uses the Pulumi program of the README (examples/local), on a cluster on this machine: up, a claim, a
 * change with preview and rollout, its revert, and destroy.
 */
async function walkThrough(context: DemoContext): Promise<void> {
  const directory = await ProgramDirectory.make(fileURLToPath(new URL("../local", import.meta.url)));
  try {
    await runSteps(context, directory);
  } finally {
    await directory.remove();
  }
}

async function runSteps(
  { cluster, kubeconfigPath, steps, signal }: DemoContext,
  directory: ProgramDirectory,
): Promise<void> {
  const note = (line: string): void => {
    // Show only the progress of the snapshot.
    if (line.startsWith(`${at.name}: `)) steps.note(line);
  };
  const commandLine = new CommandLine({ kubeconfigPath, onProgress: () => undefined, signal });
  const rowsIn = async (name: string): Promise<string> =>
    (await commandLine.ramet(["sandbox", "exec", name, "--", "wc", "-l", "/data/table.csv"])).split(" ")[0] ?? "";
  const checkpoints = async (): Promise<string> =>
    (await cluster.checkpoints.list({ namespace: at.namespace, signal })).items
      .map(({ metadata }) => metadata.uid)
      .toSorted()
      .join();
  let found: Engine | undefined;
  const engine = (): Engine => {
    if (found === undefined) throw new Error("no engine was opened");
    return found;
  };
  let first: RunResult | undefined;

  await steps.step("Find pulumi", async () => {
    found = await openEngine({
      program: directory.path,
      stateDirectory: directory.home,
      kubeconfig: kubeconfigPath,
      onLine: note,
      signal,
      project: "ramet-local",
      stack: "demo",
      passphrase: "demo",
    });
    return found.description;
  });
  await steps.step("pulumi up: a template, a named snapshot, a pool and a clone", async () => {
    first = await succeeded(engine().up());
    expectEqual("the version", String(first.outputs["version"]), "1");
    const answer = await answerOf(String(first.outputs["url"]), signal);
    expectEqual("the answer of the clone", String(answer.includes("Directory listing")), "true");
    expectEqual("lines of the table in the clone", await rowsIn("dev"), "100001");
    return `version 1 is current; the clone responds at ${String(first.outputs["url"])} and has 100000 rows`;
  });
  const watch = await SetWatch.open(cluster, set, signal);
  let claimed = "";
  try {
    await steps.step("Claim a sandbox of the pool", async () => {
      claimed = (await commandLine.ramet(["claim", set, "--no-create"])).trim();
      expectEqual("lines of the table", await rowsIn(claimed), "100001");
      await watch.untilSettled(replicas, signal);
      return `${claimed} has the table, and the pool has ${replicas} ready sandboxes again`;
    });
    await steps.step("Change the second step, and preview", async () => {
      await directory.edit("--rows 100000", "--rows 200000");
      const { text } = await succeeded(engine().preview());
      if (!/rebuilds from step 2 of 4; pool rolls 10 sandboxes/.test(text))
        throw new Error(`unexpected preview: ${text}`);
      return "the preview reports the first step to rebuild and the pool that rolls";
    });
    await steps.step("pulumi up: the changed step runs, and the pool rolls", async () => {
      const { outputs } = await succeeded(engine().up());
      expectEqual("the version", String(outputs["version"]), "2");
      await watch.untilSettled(replicas, signal);
      const [ready] = watch.ready;
      expectEqual("lines of the table in the pool", await rowsIn(ready?.metadata.name ?? ""), "200001");
      expectEqual("lines of the table in the claimed one", await rowsIn(claimed), "100001");
      return `version 2 is current, all ${replicas} sandboxes have 200000 rows; ${claimed} keeps its 100000`;
    });
    await steps.step("git revert and pulumi up: nothing is built", async () => {
      const before = await checkpoints();
      await directory.edit("--rows 200000", "--rows 100000");
      const { text, outputs } = await succeeded(engine().up());
      expectEqual("the version", String(outputs["version"]), "1");
      expectEqual("the digest", String(outputs["digest"]), String(first?.outputs["digest"]));
      if (!text.includes("digest is kept as version 1: no rebuild"))
        throw new Error(`unexpected output of pulumi up: ${text}`);
      await watch.untilSettled(replicas, signal);
      expectEqual("the checkpoints", await checkpoints(), before);
      return "version 1 is current again, and no checkpoint was created";
    });
  } finally {
    await watch.close();
  }
  await steps.step("pulumi destroy", async () => {
    await succeeded(engine().destroy());
    const left = [await cluster.sets.find({ ...at, name: set }), await cluster.snapshots.find(at)];
    expectEqual("the remaining objects", JSON.stringify(left), "[null,null]");
    expectEqual("lines of the table in the claimed one", await rowsIn(claimed), "100001");
    return `the pool, the snapshot and the clone are deleted; the claimed sandbox ${claimed} keeps running`;
  });
}

process.exit(await runDemo(walkThrough));
