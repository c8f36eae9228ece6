import * as z from "zod";
import { defined } from "../../base/defined.ts";
import { RametError } from "../../base/errors.ts";
import type { Container, Handler, Volume } from "../schema/pod-template.ts";
import { type CellConfig, cellPort } from "../wire/cell-api.ts";
import type { ResolvedImage } from "./resolved-image.ts";
import { probeFields, tcpProbeThroughCell } from "./tcp-probe.ts";
import { environmentPrefix, expandVariables, mountsPath, sortedMounts } from "./container-spec.ts";
import { quantityToBytes, quantityToMillicores } from "../../base/quantity.ts";

/** The mount path of the template's image in the cell's container. */
export const rootPath = "/ramet/root";
const rootVolume = "ramet-root";

/**
 * The cell's directory, with the files that its sandbox writes and with checkpoints on their way to or from a bucket. The kubelet
 * counts an emptyDir.
 */
export const cellVolume: Volume = { name: "ramet-cell", emptyDir: {} };

/** What the cells of a node and a namespace share. */
export const nodeCacheVolumeName = "ramet-node-cache";
/** The default of `RAMET_CELL_NODE_CACHE`. */
const nodeCacheDirectory = "/run/ramet/node-cache";

/** The volumes of the cell, which other containers must not mount. */
export const cellVolumeNames: readonly string[] = [cellVolume.name, nodeCacheVolumeName];

export function nodeCacheVolume(path: string): Volume {
  return { name: nodeCacheVolumeName, hostPath: { path, type: "DirectoryOrCreate" } };
}

/** The default of `RAMET_CELL_DIRECTORY` (src/cell/setting/cell-setting.ts). */
const cellDirectory = "/run/ramet/cell";

/**
 * The cell's capabilities; all others are dropped. Without one of them no sandbox starts (docs/reference/cell.md). The sandbox
 * does not get them: gVisor has its own capabilities.
 */
export const cellCapabilities = [
  "NET_ADMIN", // link: namespaces' veth pair, addresses, routes and the proxy's packet rules
  "SYS_ADMIN", // cell and runsc: unshare, mount and pivot_root for the sandbox, setns for link
  "SETUID", // runsc: maps the users of the gofer's user namespace
  "SETGID", // the same, for its groups
  "SETFCAP", // the same, for root, since Linux 5.12
  "DAC_OVERRIDE", // cell: the overlay over files of the image that only their owner can read
  "CHOWN", // link: the owners of the files of a layer
  "FOWNER", // link: their modes and times
  "FSETID", // link: their set-user-ID and set-group-ID bits
  "NET_BIND_SERVICE", // link: the sandbox's resolver, port 53 of the gateway namespace
  "NET_RAW", // link and runsc: packet sockets on the veth pair's ends
] as const;

/** The template's image as an image volume, with the container's pull policy. A resolved image is named by its digest. */
export function imageVolume({ image, imagePullPolicy }: Container, resolved?: ResolvedImage): Volume {
  return {
    name: rootVolume,
    image: {
      reference: resolved?.reference ?? image,
      ...defined({ pullPolicy: imagePullPolicy }),
    },
  };
}

export interface CellImageOptions {
  /** The image with the cell, gVisor, guest and link. */
  cellImage: string;
  /** The path of the cell's seccomp profile in the kubelet's directory of profiles. @default none: `Unconfined` */
  seccompProfile?: string | undefined;
  /** Whether the container gets what the cell needs on top of the template's resources. @default true */
  hasOverhead?: boolean;
  /** Whether the Pod gets a user namespace, in which a cell cannot create control groups. @default what the template says */
  userNamespace?: boolean;
  /** The template's image, if its registry is known to the controllers. @default the node or nobody knows it */
  resolvedImage?: ResolvedImage | undefined;
}

/** The cell's container. It has the name of the main container, so that `kubectl logs` and metrics work as usual. */
export function cellContainer(container: Container, config: CellConfig, options: CellImageOptions): Container {
  const { cellImage: image, seccompProfile, hasOverhead = true, userNamespace = false, resolvedImage } = options;
  const { name, resources, lifecycle } = container;
  const { postStart, preStop } = lifecycle ?? {};
  return {
    name,
    image,
    env: environment(container, config, resolvedImage),
    ...defined({
      envFrom: container.envFrom?.map((source) => ({ ...source, prefix: environmentPrefix + (source.prefix ?? "") })),
    }),
    ports: [...(container.ports ?? []), { name: "ramet-cell", containerPort: cellPort, protocol: "TCP" }],
    ...(resources && {
      resources: hasOverhead ? cellResources(resources, !userNamespace, sizeOfLayers(config.layers)) : resources,
    }),
    volumeMounts: [
      ...sortedMounts(container).map((mount, index) => ({
        ...withSubPath(mount, config),
        mountPath: `${mountsPath}/${index}`,
      })),
      { name: rootVolume, mountPath: rootPath, readOnly: true },
      { name: cellVolume.name, mountPath: cellDirectory },
      ...(config.nodeCacheBytes === undefined ? [] : [{ name: nodeCacheVolumeName, mountPath: nodeCacheDirectory }]),
    ],
    readinessProbe: cellReadiness,
    ...probes(container),
    ...(lifecycle && {
      lifecycle: {
        ...(postStart && { postStart: startHook(container, postStart) }),
        ...(preStop && { preStop: inSandbox(preStop) }),
      },
    }),
    securityContext: {
      // The cell runs as root, whatever the Pod sets for its other containers.
      runAsUser: 0,
      runAsGroup: 0,
      runAsNonRoot: false,
      capabilities: { drop: ["ALL"], add: [...cellCapabilities] },
      // runsc needs pivot_root, which RuntimeDefault denies, and mounts, which AppArmor's default profile denies.
      seccompProfile: seccompOf(seccompProfile),
      appArmorProfile: { type: "Unconfined" },
    },
  };
}

function seccompOf(localhostProfile: string | undefined): object {
  return localhostProfile === undefined ? { type: "Unconfined" } : { type: "Localhost", localhostProfile };
}

const cellReadiness = {
  httpGet: { path: "/readyz", port: cellPort },
  periodSeconds: 1,
  timeoutSeconds: 1,
  failureThreshold: 3,
};

/** A node that has found a cell ready needs at least this long to report it as not ready. */
export const earliestUnreadySeconds = (cellReadiness.failureThreshold - 1) * cellReadiness.periodSeconds;

/**
 * The cell's setting, and the variables that only the kubelet can resolve. The user's variables have a prefix here: a
 * NODE_OPTIONS or PATH for the sandbox must not apply to the cell.
 */
function environment(
  container: Container,
  config: CellConfig,
  resolvedImage: ResolvedImage | undefined,
): NonNullable<Container["env"]> {
  const resolved = (container.env ?? []).filter(({ valueFrom }) => valueFrom !== undefined);
  return [
    ...resolved.map(({ name, valueFrom }) => ({ name: environmentPrefix + name, valueFrom })),
    { name: "RAMET_CELL", value: literalJson(config) },
    ...(resolvedImage ? [{ name: "RAMET_IMAGE_CONFIG", value: literalJson(resolvedImage.config) }] : []),
  ];
}

/** `subPathExpr` refers to variables of the container: literal ones are expanded, the kubelet's get their prefix. */
function withSubPath<Mount extends Record<string, unknown>>(mount: Mount, config: CellConfig): Mount {
  const expression = mount["subPathExpr"];
  if (typeof expression !== "string") return mount;
  const literal = new Map(config.container.env.map(({ name, value }) => [name, value]));
  const subPathExpr = expandVariables(expression, (name) => literal.get(name) ?? `$(${environmentPrefix}${name})`);
  return { ...mount, subPathExpr };
}

/** Escapes `$`, because the kubelet expands `$(NAME)` and `$$` in a variable's value. */
function literalJson(value: unknown): string {
  return JSON.stringify(value).replaceAll("$", "\\u0024");
}

/**
 * A kubelet runs the hook before it reports the container as running, and only then can the controller give the sandbox its
 * identity, before which no connection is accepted.
 * @throws RametError `InvalidArgument` for a request to the sandbox itself
 */
function startHook({ name }: Container, hook: Handler): Handler {
  if (hook.httpGet === undefined || hook.httpGet["host"] !== undefined) return inSandbox(hook, atStartFlag);
  const field = `spec.template.spec.containers[${name}].lifecycle.postStart.httpGet`;
  throw new RametError(
    "InvalidArgument",
    `${field}: a sandbox accepts connections only after this hook has succeeded`,
    { hint: "Use exec with a command that sends the request from inside the sandbox" },
  );
}

function probes(container: Container): Partial<Container> {
  return Object.fromEntries(
    probeFields.flatMap((field) => {
      const probe = container[field];
      if (probe === undefined) return [];
      const timed = field === "startupProbe" ? probedOften(probe) : probe;
      return [[field, inSandbox(tcpProbeThroughCell(field, timed, container))]];
    }),
  );
}

/**
 * Lets the node find out soon that a sandbox has started, and give up no earlier than the template says: a probe that succeeds is not
 * repeated. A command is started as often as the template says, because it costs a process in the cell.
 */
function probedOften(probe: Handler): Handler {
  const { periodSeconds, failureThreshold, timeoutSeconds } = ProbeTiming.parse(probe);
  const often = Math.max(1, timeoutSeconds);
  if (probe.exec !== undefined || often >= periodSeconds) return probe;
  return {
    ...probe,
    periodSeconds: often,
    failureThreshold: Math.ceil((failureThreshold * periodSeconds) / often),
  };
}

/** With the defaults of Kubernetes. The API server reports other values that are not valid. */
const ProbeTiming = z.object({
  periodSeconds: z.int().positive().catch(10),
  failureThreshold: z.int().positive().catch(3),
  timeoutSeconds: z.int().positive().catch(1),
});

/** The inverse of `inSandbox`: the command that a probe or hook runs in the sandbox. */
export function commandInSandbox(command: readonly string[]): { command: readonly string[]; atStart: boolean } {
  const isWrapped = execPrefix.every((word, index) => command[index] === word);
  if (!isWrapped) return { command, atStart: false };
  const end = command.indexOf("--");
  return { command: command.slice(end + 1), atStart: command.slice(0, end).includes(atStartFlag) };
}

const execPrefix = ["ramet", "cell", "exec"];
const atStartFlag = "--at-start";

/** The kubelet starts the command of a probe or hook in the cell's container. The cell runs it in the sandbox. */
function inSandbox(handler: Handler, ...options: string[]): Handler {
  if (handler.exec === undefined) return handler;
  return {
    ...handler,
    exec: { command: [...execPrefix, ...options, "--", ...(handler.exec.command ?? [])] },
  };
}

type Resources = NonNullable<Container["resources"]>;

/**
 * The resources that a cell needs on top of its sandbox, measured: 55 MiB of memory for the cell and link, 25 MiB for a `runsc` command, and up to
 * 30 MiB of buffers while a checkpoint is uploaded.
 */
export const overheadBytes = 128 * 1024 ** 2;
/** Logs, and what a file system needs for itself. */
const overheadStorageBytes = 256 * 1024 ** 2;
/** While the sandbox uses all of its own CPU, its cell must respond. */
export const overheadMillis = 100;
/** Starting a cell and its sandbox takes about one second of CPU: ten seconds with a limit of 100m. */
export const leastMillis = 1_000;

export function sizeOfLayers(layers: readonly { sizeBytes: number }[] = []): number {
  return layers.reduce((sum, { sizeBytes }) => sum + sizeBytes, 0);
}

/**
 * Returns the resources of a cell's container: those of the template's container plus what the cell needs. The sandbox itself has
 * the template's limits, in its own control groups. Memory is added to the request too, because the cell keeps it. CPU is not,
 * because the cell uses it only while it starts, captures or restores. The limit of ephemeral storage, which bounds the files of
 * the sandbox itself, has room for one checkpoint on its way to or from a bucket, plain and encrypted: the kubelet evicts a Pod that
 * exceeds it.
 * @param limitsSandbox whether the cell can give the sandbox limits of its own. If not, those of the container bound the sandbox,
 *   and a small CPU limit is not raised, although the sandbox then starts slowly
 * @param layerBytes the size of the layers that the cell unpacks, which it also downloads
 */
export function cellResources(resources: Resources, limitsSandbox = true, layerBytes = 0): Resources {
  const limits = { ...resources.limits };
  // As the API server does. A raised limit must not become the request.
  const requests = { ...limits, ...resources.requests };
  if (limits["memory"] !== undefined) limits["memory"] = bytesPlus(limits["memory"], overheadBytes);
  if (requests["memory"] !== undefined) requests["memory"] = bytesPlus(requests["memory"], overheadBytes);
  if (limits["cpu"] !== undefined) {
    const least = limitsSandbox ? leastMillis : 0;
    limits["cpu"] = `${Math.max(quantityToMillicores(limits["cpu"]) + overheadMillis, least)}m`;
  }
  if (limits["ephemeral-storage"] !== undefined)
    limits["ephemeral-storage"] = cellStorage(limits["ephemeral-storage"], resources.limits?.["memory"], layerBytes);
  return {
    ...resources,
    ...(resources.limits && { limits }),
    ...((resources.limits ?? resources.requests) && { requests }),
  };
}

function cellStorage(own: string | number, memory: string | number | undefined, layerBytes: number): string {
  const checkpointBytes = quantityToBytes(own) + quantityToBytes(memory ?? 0);
  return bytesPlus(own, 2 * (checkpointBytes + layerBytes) + overheadStorageBytes);
}

function bytesPlus(quantity: string | number, more: number): string {
  const bytes = quantityToBytes(quantity) + more;
  const mebibyte = 1024 ** 2;
  return bytes % mebibyte === 0 ? `${bytes / mebibyte}Mi` : `${bytes}`;
}
