import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { acquirePinned } from "../../src/local/tools/acquire-tools.ts";
import { pinnedNodeTool } from "../kubelet/node-tools.ts";
import { freePort } from "./free-port.ts";
import { startLoopbackServer } from "./loopback-server.ts";

/** Starts a real kube-scheduler. The API server must have all APIs. Returns a function that stops it. */
export async function startScheduler(kubeconfigPath: string): Promise<() => Promise<void>> {
  const { "kube-scheduler": program } = await acquirePinned(pinnedNodeTool, { names: ["kube-scheduler"] });
  const dir = await mkdtemp(join(tmpdir(), "ramet-scheduler-"));
  const port = await freePort();
  const child = await startLoopbackServer({
    what: "the scheduler",
    program,
    dir,
    port,
    args: [
      `--kubeconfig=${kubeconfigPath}`,
      "--leader-elect=false",
      "--bind-address=127.0.0.1",
      `--secure-port=${port}`,
      `--cert-dir=${dir}`,
    ],
  });
  return async () => {
    await child.kill();
    await rm(dir, { recursive: true, force: true });
  };
}
