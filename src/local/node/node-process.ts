import { join } from "node:path";
import { pino } from "pino";
import { RametError } from "../../base/errors.ts";
import { systemClock } from "../../base/clock.ts";
import { KubeClient } from "../../kube/kube-client.ts";
import { connectionFromKubeconfig } from "../../kube/kubeconfig.ts";
import type { ClusterFolder } from "../cluster-directory.ts";
import { readSetting } from "../cluster-setting.ts";
import { openPki } from "../control-plane/pki.ts";
import { imagesFolder } from "../images/python-image.ts";
import { readySignPath, signReady } from "../ready-sign.ts";
import { machineImages } from "./machine-images.ts";
import { hiddenFolder } from "./pod-view.ts";
import { localNodeName, runLocalNode } from "./run-node.ts";
import { warmCompileCache } from "./warm-cache.ts";

/** The process `ramet local node`: the node of the cluster in this folder, until `signal` is aborted. */
export async function runNodeProcess(folder: ClusterFolder, signal: AbortSignal): Promise<void> {
  const setting = await readSetting(folder.setting);
  const pki = await openPki(join(folder.path, "pki"), () => systemClock.now());
  const serving = pki.issue({ commonName: localNodeName, use: "server", hosts: ["127.0.0.1"] });
  const client = new KubeClient(await connectionFromKubeconfig({ path: folder.kubeconfig }), {
    userAgent: "ramet-local-node",
  });
  const { runsc, "ramet-guest": guest, "ramet-link": link } = setting.tools;
  const compileCache = join(folder.path, "cell-compile-cache");
  const needed = [...Object.values(setting.tools), ...setting.cell, imagesFolder()];
  const log = pino({ name: "local-node" }, pino.destination(2));
  await warmCompileCache(compileCache, link, setting.cell).catch((error: unknown) => {
    // Cells then compile it each for themselves.
    log.warn({ error: RametError.from(error).message }, "the cell's compiled code is not kept");
  });
  try {
    await runLocalNode(
      {
        client,
        dir: folder.path,
        images: machineImages((line) => {
          log.info({}, line);
        }, systemClock),
        tools: { runsc, guest, link },
        cell: setting.cell,
        environment: {
          PATH: process.env["PATH"] ?? "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
          HOME: process.env["HOME"] ?? "/",
          NODE_COMPILE_CACHE: compileCache,
        },
        view: { hidden: [hiddenFolder(folder.path, needed)], shared: [compileCache], store: folder.store },
        serving: { ca: pki.ca, ...serving },
        log,
        onReady: () => {
          signReady(readySignPath(folder, "node"));
        },
      },
      signal,
    );
  } finally {
    await client.close();
  }
}
