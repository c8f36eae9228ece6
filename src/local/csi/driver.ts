import { resolve } from "node:path";
import { type Clock, untilAborted } from "../../base/clock.ts";
import type { Log } from "../../base/log.ts";
import { driverName } from "./driver-name.ts";
import { canMount } from "./node/privileges.ts";
import { loadCsiServices } from "./protocol.ts";
import { type KubeletRegistration, registerWithKubelet } from "./registration.ts";
import { serveGrpc } from "./serve.ts";
import { controllerService } from "./services/controller.ts";
import { groupControllerService } from "./services/groups.ts";
import { identityService } from "./services/identity.ts";
import { nodeService } from "./services/node.ts";
import { openStorage, type Storage } from "./storage/storage.ts";
import { treesBy } from "./storage/trees.ts";

export interface CsiDriverOptions {
  /** The path of its Unix socket. */
  socket: string;
  /** Where the volumes and snapshots are. */
  directory: string;
  /** The name of the node whose machine this is. */
  nodeId: string;
  /** The program `ramet-link`, which copies and removes directories. */
  link: string;
  /** The path of CSI's definition, `csi.proto`. */
  protoPath: string;
  /** How a kubelet finds the driver. Without it, nothing but the callers that know its socket do. */
  kubelet?: KubeletRegistration | undefined;
  version: string;
  clock: Clock;
  log: Log;
  /** Called when the driver accepts calls. */
  onReady?: () => void;
}

/** Runs a CSI driver whose volumes are directories of this machine, until `signal` aborts. */
export async function runCsiDriver(options: CsiDriverOptions, signal: AbortSignal): Promise<void> {
  const { log } = options;
  const storage = await openStorage(
    { directory: resolve(options.directory), trees: treesBy(options.link, signal), log },
    signal,
  );
  try {
    await serveStorage(options, storage, signal);
  } finally {
    storage.close();
  }
}

async function serveStorage(options: CsiDriverOptions, storage: Storage, signal: AbortSignal): Promise<void> {
  const { socket, nodeId, protoPath, kubelet, version, clock, log } = options;
  const mayMount = await canMount();
  if (!mayMount) log.warn({}, "the driver may not mount, so it cannot publish volumes: it lacks CAP_SYS_ADMIN");
  const { Identity, Controller, GroupController, Node } = loadCsiServices(protoPath);
  const services = [
    { definition: Identity, methods: identityService(version) },
    { definition: Controller, methods: controllerService({ storage, nodeId, clock }) },
    { definition: GroupController, methods: groupControllerService({ storage, clock }) },
    { definition: Node, methods: nodeService({ storage, nodeId, mayMount }) },
  ];
  const stop = await serveGrpc({ socket, services, clock, log });
  log.info({ driver: driverName, socket, nodeId }, "the driver accepts calls");
  const unregister = kubelet && (await registerWithKubelet(kubelet, { endpoint: socket, clock, log }));
  options.onReady?.();
  await untilAborted(signal);
  await unregister?.();
  await stop();
}
