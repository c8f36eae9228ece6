import { join } from "node:path";
import { delay } from "../../base/clock.ts";
import { RametError } from "../../base/errors.ts";
import type { Log } from "../../base/log.ts";
import { runController, watching } from "../../kube/controller.ts";
import { Informer } from "../../kube/informer.ts";
import type { KubeClient } from "../../kube/kube-client.ts";
import { coreResources } from "../../kube/resource-ref.ts";
import { claimsIn } from "../../kube/volumes/volumes.ts";
import { LocalVolumes } from "../volumes/local-volumes.ts";
import { Claims } from "./claims.ts";
import type { CellTools } from "./cell-environment.ts";
import { CellImages, type EarlierPrograms } from "./engine-bundles.ts";
import { startKubeletServer } from "./kubelet-server.ts";
import { heartbeatMilliseconds, localNodeName, renewNodeLease, writeNode } from "./node-object.ts";
import { PodRunner } from "./pod-runner.ts";
import type { MachineView } from "./pod-view.ts";
import { type ImageSource, NodePod, podObjects } from "./pod.ts";
import { SparePods } from "./spare-pods.ts";

const nodeIP = "127.0.0.1";
const podGraceMilliseconds = 5_000;

export interface LocalNodeOptions {
  client: KubeClient;
  /** The cluster's directory. The Pods' directories are in `pods`, and the driver's volumes in `volumes`. */
  dir: string;
  /** The socket of the CSI driver. */
  driverSocket: string;
  images: ImageSource;
  tools: CellTools;
  cell: readonly string[];
  /** @see CellImagesOptions.cellImage */
  cellImage?: string;
  /** The programs of earlier cell images. @default there are none */
  earlierCells?: EarlierPrograms;
  /** Environment variables of every cell, such as PATH. */
  environment: Record<string, string>;
  /** The part of the machine's files that cells see. */
  view: MachineView;
  /** PEM, for the port at which the API server requests logs. */
  serving: { ca: string; certificate: string; key: string };
  log: Log;
  /** Called when the node accepts Pods. */
  onReady?: () => void;
}

/**
 * Runs the node of a local cluster until `signal` is aborted, then stops its Pods and reports that in their status. If the
 * node is killed, its Pods keep running and the next run adopts them.
 */
export async function runLocalNode(options: LocalNodeOptions, signal: AbortSignal): Promise<void> {
  const { client, log, dir } = options;
  const { clock } = client;
  const informer = new Informer<NodePod>({
    resource: client.resource(coreResources.pods, (value) => NodePod.parse(value)),
    log,
  });
  const claimInformer = new Informer({ resource: claimsIn(client), log });
  const volumes = new LocalVolumes({
    client,
    claims: claimInformer,
    socket: options.driverSocket,
    directory: join(dir, "volumes"),
    log,
  });
  const claims = new Claims({ claims: claimInformer, pods: informer, volumes });
  const directory = join(dir, "pods");
  const { tools, cell, cellImage, earlierCells, environment } = options;
  const cells = new CellImages({ tools, cell, cellImage, earlier: earlierCells });
  const spares = new SparePods({
    ...options,
    environment: { ...environment, ...(await cells.build(cells.current)) },
    link: options.tools.link,
    pods: directory,
    // One is for the sandbox that replaces a claimed one.
    count: 2,
    clock,
  });
  const pods = new PodRunner({
    ...options,
    cells,
    pods: directory,
    spares,
    nodeName: localNodeName,
    hostIP: nodeIP,
    informer,
    objects: podObjects(client),
    claims,
    clock,
  });
  const server = await startKubeletServer({
    ...options.serving,
    ip: nodeIP,
    clock,
    findLog: (at, container) => pods.findLog(at, container),
  });
  const facts = { name: localNodeName, ip: nodeIP, port: server.port };
  await writeNode(client, facts, { ready: true, reason: "Running", message: "the local node accepts Pods" });
  pods.recover();
  await spares.fill();
  const stopInforming = new AbortController();
  const informing = Promise.all([informer.run(stopInforming.signal), claimInformer.run(stopInforming.signal)]);
  const beating = heartbeats(options, pods, signal);
  const controller = {
    name: "local-node",
    watches: [watching(informer)],
    reconcile: (key: string) => pods.reconcile(key),
    clock,
    concurrency: 16,
    log,
  };
  const claimController = {
    name: "local-claims",
    watches: [watching(claimInformer), watching(informer, (pod) => Claims.keysOf(pod))],
    reconcile: (key: string) => claims.reconcile(key),
    clock,
    log,
  };
  try {
    await Promise.all([
      runController(claimController, signal),
      volumes.run(signal),
      runController(controller, signal, (add) => {
        pods.onChange(add);
        options.onReady?.();
      }),
    ]);
  } finally {
    await Promise.all([pods.shutDown(podGraceMilliseconds), spares.stop()]);
    await writeNode(client, facts, {
      ready: false,
      reason: "NodeShutdown",
      message: "the local cluster is stopped",
    }).catch((error: unknown) => {
      log.warn({ error: RametError.from(error).message }, "marking the Node as down failed");
    });
    server.close();
    stopInforming.abort();
    await informing;
    await beating;
  }
}

async function heartbeats({ client, log }: LocalNodeOptions, pods: PodRunner, signal: AbortSignal): Promise<void> {
  while (!signal.aborted) {
    pods.rotateLogs();
    await renewNodeLease(client, localNodeName).catch((error: unknown) => {
      log.warn({ error: RametError.from(error).message }, "renewing the node's Lease failed");
    });
    await delay(client.clock, heartbeatMilliseconds, signal).catch(() => undefined);
  }
}
