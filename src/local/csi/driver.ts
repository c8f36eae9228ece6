import { chmod, mkdir, readFile, rm } from "node:fs/promises";
import { dirname, join, resolve } from "node:path";
import { promisify } from "node:util";
import { Server, ServerCredentials, type ServiceDefinition, type UntypedServiceImplementation } from "@grpc/grpc-js";
import * as z from "zod";
import { type Clock, delay, untilAborted } from "../../base/clock.ts";
import { RametError, textOfError } from "../../base/errors.ts";
import { socketAccepts } from "../../base/http.ts";
import type { Log } from "../../base/log.ts";
import { requests } from "./requests.ts";
import { groupControllerService } from "./services/groups.ts";
import { nodeService } from "./services/node.ts";
import { snapshotMethods } from "./services/snapshots.ts";
import { type ControllerOptions, volumeMethods } from "./services/volumes.ts";
import { type Storage, openStorage } from "./storage/storage.ts";
import { treesBy } from "./storage/trees.ts";
import { type Method, driverName, grpcHandler, loadCsiServices, loadRegistrationService, method } from "./unary.ts";

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
    { definition: GroupController, methods: groupControllerService(storage, clock) },
    { definition: Node, methods: nodeService(storage, nodeId, mayMount) },
  ];
  const stop = await serveGrpc({ socket, services, clock, log });
  log.info({ driver: driverName, socket, nodeId }, "the driver accepts calls");
  const unregister = kubelet && (await registerWithKubelet(kubelet, options));
  options.onReady?.();
  await untilAborted(signal);
  await unregister?.();
  await stop();
}

/** Whether this process may mount: whether it has CAP_SYS_ADMIN (capabilities(7)). */
async function canMount(): Promise<boolean> {
  const status = await readFile("/proc/self/status", "utf8");
  const effective = BigInt(`0x${/^CapEff:\s*([0-9a-f]+)$/m.exec(status)?.[1] ?? "0"}`);
  return (effective & capSysAdmin) !== 0n;
}

const capSysAdmin = 1n << 21n;

/** The Identity service. */
function identityService(version: string): Record<string, Method> {
  return {
    GetPluginInfo: method(requests.empty, () => ({ name: driverName, vendorVersion: version })),
    GetPluginCapabilities: method(requests.empty, () => ({
      capabilities: [
        { service: { type: "CONTROLLER_SERVICE" } },
        { service: { type: "GROUP_CONTROLLER_SERVICE" } },
        { service: { type: "VOLUME_ACCESSIBILITY_CONSTRAINTS" } },
        { volumeExpansion: { type: "ONLINE" } },
      ],
    })),
    Probe: method(requests.empty, () => ({ ready: { value: true } })),
  };
}

const capabilities = [
  "CREATE_DELETE_VOLUME",
  "LIST_VOLUMES",
  "GET_VOLUME",
  "GET_CAPACITY",
  "CREATE_DELETE_SNAPSHOT",
  "LIST_SNAPSHOTS",
  "GET_SNAPSHOT",
  "CLONE_VOLUME",
  "EXPAND_VOLUME",
  "SINGLE_NODE_MULTI_WRITER",
];

/** The Controller service. Volumes need no attachment, so it has no methods for that. */
function controllerService(options: ControllerOptions): Record<string, Method> {
  return {
    ControllerGetCapabilities: method(requests.empty, () => ({
      capabilities: capabilities.map((type) => ({ rpc: { type } })),
    })),
    ...volumeMethods(options),
    ...snapshotMethods(options),
  };
}

interface KubeletRegistration {
  /** The root directory of the kubelet, for instance /var/lib/kubelet. */
  directory: string;
  /** The path of the kubelet's definition, `pluginregistration.proto`. */
  protoPath: string;
}

/**
 * Makes the driver known to a kubelet of this machine, as node-driver-registrar does: by a socket in its directory
 * `plugins_registry`, which the kubelet watches. The kubelet then asks the driver for its node, and writes a CSINode. It registers
 * the driver again when it restarts.
 * @returns a function that removes the socket, and so the driver from the node
 */
function registerWithKubelet(
  { directory, protoPath }: KubeletRegistration,
  { socket: endpoint, clock, log }: Pick<CsiDriverOptions, "socket" | "clock" | "log">,
): Promise<() => Promise<void>> {
  const methods = {
    // The versions are those of CSI: the kubelet accepts those that begin with 1 (pkg/volume/csi/csi_plugin.go).
    GetInfo: method(requests.empty, () => ({
      type: "CSIPlugin",
      name: driverName,
      endpoint,
      supportedVersions: ["1.0.0"],
    })),
    NotifyRegistrationStatus: method(Status, ({ pluginRegistered, error }) => {
      if (pluginRegistered) log.info({ directory }, "the kubelet has registered the driver");
      else log.error({ directory, error }, "the kubelet did not register the driver");
      return {};
    }),
  };
  const socket = join(directory, "plugins_registry", `${driverName}-reg.sock`);
  const services = [{ definition: loadRegistrationService(protoPath), methods }];
  return serveGrpc({ socket, services, clock, log });
}

const Status = z.object({ pluginRegistered: z.boolean(), error: z.string() });

interface ServeOptions extends Pick<CsiDriverOptions, "socket" | "clock" | "log"> {
  services: readonly { definition: ServiceDefinition; methods: Record<string, Method> }[];
}

/** Serves gRPC on a Unix socket that only this user can open. Resolves when it accepts calls. @returns a function that stops it */
async function serveGrpc({ socket, services, clock, log }: ServeOptions): Promise<() => Promise<void>> {
  await mkdir(dirname(socket), { recursive: true, mode: 0o700 });
  if (await socketAccepts(socket))
    throw new RametError("Conflict", `Opening ${socket} failed: another process serves it`, {
      hint: "Stop the other driver, or choose another endpoint",
    });
  // The socket of a driver that was killed.
  await rm(socket, { force: true });
  const server = new Server({ "grpc.max_receive_message_length": mostBytes, "grpc.max_concurrent_streams": mostCalls });
  for (const { definition, methods } of services) {
    const handlers: UntypedServiceImplementation = {};
    for (const [method, handle] of Object.entries(methods)) handlers[method] = grpcHandler(method, handle, log);
    server.addService(definition, handlers);
  }
  const bind = promisify(server.bindAsync.bind(server));
  await bind(`unix:${socket}`, ServerCredentials.createInsecure()).catch((cause: unknown) => {
    throw new RametError("InvalidArgument", `Opening ${socket} failed: ${textOfError(cause)}`, { cause });
  });
  await chmod(socket, 0o600);
  return async () => {
    const stopping = new AbortController();
    const drained = promisify(server.tryShutdown.bind(server))().catch(() => undefined);
    await Promise.race([drained, delay(clock, drainMilliseconds, stopping.signal).catch(() => undefined)]);
    stopping.abort();
    server.forceShutdown();
    await rm(socket, { force: true });
  };
}

/** CSI's messages are small: names, ids and maps of some KiB. */
const mostBytes = 1024 * 1024;
const mostCalls = 1_000;
const drainMilliseconds = 2_000;
