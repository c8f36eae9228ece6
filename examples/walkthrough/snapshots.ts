import { stringify } from "yaml";
import type { NamedSnapshotStatus } from "../../src/api/kinds/named-snapshot-status.ts";
import type { Sandbox } from "../../src/api/kinds/sandbox.ts";
import { CommandLine } from "./command-line.ts";
import { runDemo, type DemoContext } from "./run-demo.ts";
import { SetWatch } from "./set-watch.ts";
import { expectEqual } from "./steps.ts";
import { ask, setManifest, snapshotManifest, templateManifest, type Answer } from "./web-snapshot.ts";

const replicas = 3;
const set = "pool";
const at = { namespace: "default", name: "web" };

/**
 * Warms a set from a named snapshot, changes one step of its recipe, claims a sandbox while the set rolls, and rolls back, on a
 * cluster on this machine.
 */
async function walkThrough({ cluster, kubeconfigPath, steps, signal }: DemoContext): Promise<void> {
  const note = (line: string): void => {
    steps.note(line.trim());
  };
  const commandLine = new CommandLine({ kubeconfigPath, onProgress: note, signal });
  const apply = async (word: string): Promise<NamedSnapshotStatus> => {
    await commandLine.ramet(["snapshot", "apply", "-f", "-"], stringify(snapshotManifest(word)));
    return status();
  };
  const status = async (): Promise<NamedSnapshotStatus> => {
    const { status: found } = await cluster.snapshots.get(at, { signal });
    if (found === undefined) throw new Error("the snapshot web has no status");
    return found;
  };
  const checkpoints = async (): Promise<string[]> =>
    (await cluster.checkpoints.list({ namespace: at.namespace, signal })).items.map(({ metadata }) => metadata.uid);
  /** Checks that all sandboxes return the same answer, because they are clones of one process. */
  const oneAnswer = async (sandboxes: readonly Sandbox[], word: string): Promise<Answer> => {
    const answers = await Promise.all(sandboxes.map((sandbox) => ask(sandbox, signal)));
    const [first] = answers;
    if (first === undefined) throw new Error("no sandbox is ready");
    for (const answer of answers) expectEqual("a response", JSON.stringify(answer), JSON.stringify({ ...first, word }));
    expectEqual("the file that the server has read", `${first.modelFile}`, "false");
    return first;
  };

  await steps.step("Create a template, and build the named snapshot web from it in five steps", async () => {
    await cluster.templates.create(templateManifest, { signal });
    const { version, steps: done = [] } = await apply("one");
    expectEqual("the version", `${version}`, "1");
    expectEqual("steps from the cache", `${done.filter(({ cached }) => cached).length}`, "0");
    return "version 1 is current: it contains a running Python server with its data in memory";
  });
  const watch = await SetWatch.open(cluster, set, signal);
  try {
    let one: Answer | undefined;
    await steps.step(`Warm a set of ${replicas} from it`, async () => {
      await cluster.sets.create(setManifest(set, replicas), { signal });
      await watch.untilSettled(replicas, signal);
      one = await oneAnswer(watch.ready, "one");
      return `${replicas} sandboxes are ready and respond from memory: clones of one process, started once (${one.started.slice(0, 8)})`;
    });
    watch.restart();
    const rolling = watch.untilRolling(signal);
    // If the build fails, nothing awaits this promise.
    rolling.catch(() => undefined);
    await steps.step("Change the fifth step", async () => {
      note((await commandLine.ramet(["snapshot", "diff", "-f", "-"], stringify(snapshotManifest("two")))).trimEnd());
      const { version, steps: done = [] } = await apply("two");
      expectEqual("the version", `${version}`, "2");
      expectEqual("cached", done.map(({ cached }) => `${cached}`).join(), "true,true,true,true,false");
      return "four steps came from the cache, with the running server; one step ran";
    });
    await steps.step("Claim a sandbox while the set rolls", async () => {
      await rolling;
      expectEqual("the set rolls", `${watch.isRolling}`, "true");
      expectEqual("fewest ready until the claim", `${watch.fewestReady}`, `${replicas}`);
      const name = (await commandLine.ramet(["claim", set, "--no-create"])).trim();
      const claimed = await cluster.sandboxes.get({ namespace: at.namespace, name }, { signal });
      const { word, started } = await ask(claimed, signal);
      expectEqual("the server's number", started, one?.started ?? "");
      return `${name} is claimed and responds "${word}"`;
    });
    await steps.step("Wait until all sandboxes are replaced", async () => {
      await watch.untilSettled(replicas, signal);
      const two = await oneAnswer(watch.ready, "two");
      expectEqual("the server's number", two.started, one?.started ?? "");
      if (watch.fewestReady < replicas - 1)
        throw new Error(`only ${watch.fewestReady} sandboxes were ready, expected at least ${replicas - 1}`);
      return `all ${replicas} respond "two" from the process that version 1 started; at least ${replicas - 1} were always ready`;
    });
    watch.restart();
    await steps.step("Roll back", async () => {
      const before = new Set(await checkpoints());
      const { build } = await status();
      const rolled = watch.untilRolling(signal);
      rolled.catch(() => undefined);
      await commandLine.ramet(["snapshot", "rollback", "web"]);
      await rolled;
      await watch.untilSettled(replicas, signal);
      await oneAnswer(watch.ready, "one");
      const now = await status();
      expectEqual("the version", `${now.version} of ${now.latestVersion}`, "1 of 2");
      expectEqual("the latest build", JSON.stringify(now.build), JSON.stringify(build));
      expectEqual("new checkpoints", `${(await checkpoints()).filter((uid) => !before.has(uid)).length}`, "0");
      expectEqual("fewest ready", `${watch.fewestReady}`, `${replicas}`);
      for (const line of (await commandLine.ramet(["snapshot", "history", "web"])).trimEnd().split("\n"))
        steps.note(line);
      return `all ${replicas} respond "one" again; nothing was built or captured, and ${replicas} were always ready`;
    });
  } finally {
    await watch.close();
  }
}

process.exit(await runDemo(walkThrough));
