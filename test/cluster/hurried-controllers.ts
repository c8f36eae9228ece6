import { fork } from "node:child_process";
import { once } from "node:events";
import { KubeClient } from "../../src/kube/kube-client.ts";
import { connectionFromKubeconfig } from "../../src/kube/kubeconfig.ts";
import { runControllers } from "../../src/controllers/run.ts";
import { directoryStore } from "../../src/store/directory/store.ts";
import type { ProcessContext } from "./controllers-cluster.ts";

type Setting = Pick<ProcessContext, "kubeconfigPath" | "storePath" | "cellImage">;

/** Starts controllers in a process that check the record of engines all the time, and not every ten minutes. */
export async function hurriedControllers({ kubeconfigPath, storePath, cellImage }: ProcessContext) {
  const setting: Setting = { kubeconfigPath, storePath, cellImage };
  const child = fork(import.meta.filename, [JSON.stringify(setting)]);
  const exited = once(child, "exit");
  const isReady = once(child, "message").then(() => true);
  if (!(await Promise.race([isReady, exited.then(() => false)]))) throw new Error("the controllers did not start");
  return {
    kill: async () => {
      child.kill("SIGKILL");
      await exited;
    },
  };
}

async function main({ kubeconfigPath, storePath, cellImage }: Setting): Promise<void> {
  await runControllers({
    client: new KubeClient(await connectionFromKubeconfig({ path: kubeconfigPath })),
    store: { checkpoints: directoryStore({ root: storePath }) },
    cells: { cellImage },
    upkeep: { engines: { pauseMilliseconds: 300 } },
    installCrds: true,
    onReady: () => process.send?.("ready"),
    signal: new AbortController().signal,
  });
}

const [, program, setting] = process.argv;
if (program === import.meta.filename && process.send !== undefined) {
  // The test has ended.
  process.once("disconnect", () => process.exit());
  await main(JSON.parse(setting ?? "") as Setting);
}
