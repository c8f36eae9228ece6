import * as z from "zod";
import { CellConfig, type CellState, type ContainerSpec, layerBytesOf } from "../../api/wire/cell-api.ts";
import { environmentPrefix } from "../../api/pod/container-spec.ts";
import { EngineBuild } from "../../api/engine/engine.ts";
import { ImageConfig } from "../../api/pod/resolved-image.ts";
import type { WritableLayer } from "../../api/schema/metadata.ts";
import { defined } from "../../base/defined.ts";
import { RametError, textOfError } from "../../base/errors.ts";
import { tolerantParse } from "../../base/tolerant-parse.ts";

/** gVisor alone has about 40 threads while it starts. */
const ProcessLimit = z.number().int().min(64);

/** The paths of a cell's programs and files. */
export interface CellPaths {
  runsc: string;
  guest: string;
  link: string;
  /** The cell's directory: gVisor's state, sockets, logs. */
  directory: string;
  /** The unpacked layers. */
  layers: string;
  /** Whether other cells of the node use them too. */
  sharesLayers: boolean;
  /** What the cells of a node and a namespace share, if `CellConfig.nodeCacheBytes` is set. */
  nodeCache: string;
  /** The directory with gVisor's side programs and Ramet's gofer (src/cell/sandbox/saved-image.ts), if there is the gofer. */
  sidePrograms?: string;
  /** A file with the cell's current state as JSON, for the node that runs it. Replaced atomically on each change. */
  stateFile?: string;
}

export interface CellSetting {
  /** `config.container` is the container as in the Pod. It is recorded with a checkpoint and compared with templates. */
  config: CellConfig;
  /** The fields of `RAMET_CELL` that this cell does not know, because the controller is of a later release. */
  ignored: string[];
  /** The container that runs: the Pod's container, completed with the values of the image and of the kubelet. */
  container: ContainerSpec;
  image: ImageConfig;
  /** Why the image cannot run here. The cell reports it to the controllers instead of starting. */
  problem?: RametError;
  paths: CellPaths;
  /** The Pod's IP address. */
  listen: string;
  /** The build of `runsc` and the guest, if the node has already determined it. */
  engine?: EngineBuild;
  /** Whether it runs an init container or a sidecar for the local node: it boots without a controller and serves no port. */
  isSideContainer: boolean;
  /** Whether files that it writes to volumes must be in the volumes' directories, where other containers read them. */
  sharesVolumes: boolean;
  /** The limit of the sandbox's processes and threads on the host, if the operator sets one. */
  processes?: number;
}

/**
 * Reads a cell's setting from its environment variables: `RAMET_CELL` (CellConfig, from the Pod), `RAMET_IMAGE_CONFIG`
 * (ImageConfig, from the node or the controllers if known), `RAMET_ROOT_PATH` (the image's root on the node, if it differs from the Pod's
 * `rootPath`), `RAMET_ENGINE_BUILD`, `RAMET_CELL_LISTEN`, `RAMET_CELL_DIRECTORY`, `RAMET_CELL_LAYERS`, `RAMET_CELL_NODE_CACHE`, `RAMET_CELL_STATE_FILE`, `RAMET_RUNSC`,
 * `RAMET_GUEST`, `RAMET_LINK`, `RAMET_SANDBOX_PROCESSES` (default: src/cell/cgroup/cell-cgroups.ts), and the limits of a container
 * that declares none, from the local node: `RAMET_DEFAULT_MEMORY_BYTES`, `RAMET_DEFAULT_CPU_MILLIS`. The local node also sets
 * `RAMET_CELL_SIDE_CONTAINER` and `RAMET_CELL_SHARES_VOLUMES`.
 */
export function cellSetting(environment: NodeJS.ProcessEnv): CellSetting {
  const { value: config, ignored } = parseConfig(environment["RAMET_CELL"]);
  const image = parseIfSet("RAMET_IMAGE_CONFIG", ImageConfig, environment) ?? ImageConfig.parse({});
  return {
    config: { ...config, rootPath: environment["RAMET_ROOT_PATH"] ?? config.rootPath },
    ignored,
    container: withDefaultLimits(withImage(withResolved(config.container, environment), image), config, environment),
    image,
    listen: environment["RAMET_CELL_LISTEN"] ?? "0.0.0.0",
    isSideContainer: environment["RAMET_CELL_SIDE_CONTAINER"] === "true",
    sharesVolumes: environment["RAMET_CELL_SHARES_VOLUMES"] === "true",
    ...defined({
      engine: parseIfSet("RAMET_ENGINE_BUILD", EngineBuild, environment),
      processes: parseIfSet("RAMET_SANDBOX_PROCESSES", ProcessLimit, environment),
    }),
    paths: cellPaths(environment),
  };
}

/** The image that a sandbox runs, as manifests record it. */
export function imageRan({ config, image }: Pick<CellSetting, "config" | "image">) {
  return { name: config.container.image, ...defined({ digest: image.digest }) };
}

/** The writable layer of a sandbox that starts without memory. */
export function ownLayer({ config, container }: Pick<CellSetting, "config" | "container">): WritableLayer {
  return { medium: config.layerInMemory === true ? "memory" : "disk", sizeBytes: layerBytesOf(container) };
}

/** The part of a cell's state that its setting decides. */
export function stateOf(setting: CellSetting): Pick<CellState, "writableLayer" | "lacksEntrypoint"> {
  const { command, args } = setting.container;
  return {
    writableLayer: ownLayer(setting),
    ...(command.length + args.length === 0 && { lacksEntrypoint: true }),
  };
}

/** A spare knows them before it gets its setting. */
export function cellPaths(environment: NodeJS.ProcessEnv): CellPaths {
  const directory = environment["RAMET_CELL_DIRECTORY"] ?? "/run/ramet/cell";
  return {
    runsc: environment["RAMET_RUNSC"] ?? "/usr/local/bin/runsc",
    guest: environment["RAMET_GUEST"] ?? "/usr/local/bin/ramet-guest",
    link: environment["RAMET_LINK"] ?? "/usr/local/bin/ramet-link",
    directory,
    layers: environment["RAMET_CELL_LAYERS"] ?? `${directory}/layers`,
    sharesLayers: environment["RAMET_CELL_LAYERS"] !== undefined,
    nodeCache: environment["RAMET_CELL_NODE_CACHE"] ?? "/run/ramet/node-cache",
    ...defined({
      sidePrograms: environment["RAMET_SIDE_PROGRAMS"],
      stateFile: environment["RAMET_CELL_STATE_FILE"],
    }),
  };
}

/**
 * As in Kubernetes: a command replaces the image's entrypoint and cmd; args replace only its cmd. Every variable of the container
 * takes precedence over the image's, wherever its value comes from, and the image's own texts are not expanded.
 */
function withImage(container: ContainerSpec, image: ImageConfig): ContainerSpec {
  const named = new Set(container.env.map(({ name }) => name));
  const inherited = image.env.map((pair) => ({
    name: pair.split("=", 1)[0] ?? pair,
    value: pair.slice(pair.indexOf("=") + 1),
  }));
  const noCommand = container.command.length === 0;
  return {
    ...container,
    command: noCommand ? image.entrypoint : container.command,
    args: container.args.length === 0 && noCommand ? image.cmd : container.args,
    env: [...inherited.filter(({ name }) => !named.has(name)), ...container.env],
    ...(container.userOfImage && image.user !== undefined && { user: image.user }),
    ...defined({ workingDir: container.workingDir ?? (image.workingDir === "" ? undefined : image.workingDir) }),
  };
}

/** Adds the variables that the kubelet has resolved, and expands references to them. Literal values take precedence. */
function withResolved(container: ContainerSpec, environment: NodeJS.ProcessEnv): ContainerSpec {
  const resolved = Object.entries(environment).flatMap(([name, value]) =>
    name.startsWith(environmentPrefix) && value !== undefined
      ? [{ name: name.slice(environmentPrefix.length), value }]
      : [],
  );
  const literal = new Set(container.env.map(({ name }) => name));
  const values = new Map(resolved.map(({ name, value }) => [name, value]));
  const expand = (text: string): string =>
    text.replace(/\$\(([^)]*)\)/g, (reference, name: string) => values.get(name) ?? reference);
  return {
    ...container,
    command: container.command.map(expand),
    args: container.args.map(expand),
    env: [
      ...resolved.filter(({ name }) => !literal.has(name)),
      ...container.env.map(({ name, value }) => ({ name, value: expand(value) })),
    ],
  };
}

function withDefaultLimits(
  container: ContainerSpec,
  { layerBytes }: CellConfig,
  environment: NodeJS.ProcessEnv,
): ContainerSpec {
  const limit = (variable: string) => parseIfSet(variable, PositiveInt, environment);
  const { resources } = container;
  const {
    memoryBytes = limit("RAMET_DEFAULT_MEMORY_BYTES"),
    cpuMillis = limit("RAMET_DEFAULT_CPU_MILLIS"),
    storageBytes = layerBytes,
  } = resources;
  return { ...container, resources: defined({ memoryBytes, cpuMillis, storageBytes }) };
}

const PositiveInt = z.number().int().positive();

/** Below these fields an unknown field is refused: without it, the sandbox would be less protected. */
const closedFields = ["egress", "keySets"];

/** A controller of a later release starts this cell for memory of its engine (docs/decisions/0021-older-cells.md). */
function parseConfig(text: string | undefined): { value: CellConfig; ignored: string[] } {
  return parsed("RAMET_CELL", text, (value) => tolerantParse(CellConfig, value, closedFields));
}

function parseIfSet<T extends z.ZodType>(
  variable: string,
  schema: T,
  environment: NodeJS.ProcessEnv,
): z.infer<T> | undefined {
  const text = environment[variable];
  return text === undefined ? undefined : parsed(variable, text, (value) => schema.parse(value));
}

function parsed<T>(variable: string, text: string | undefined, read: (value: unknown) => T): T {
  if (text === undefined)
    throw new RametError("InvalidArgument", `cell: the environment variable ${variable} is not set`);
  try {
    return read(JSON.parse(text));
  } catch (error) {
    const why = error instanceof z.ZodError ? z.prettifyError(error) : textOfError(error);
    throw new RametError("InvalidArgument", `cell: invalid environment variable ${variable}: ${why}`, { cause: error });
  }
}
