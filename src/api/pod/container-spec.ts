import * as z from "zod";
import { RametError } from "../../base/errors.ts";
import { quantityToBytes, quantityToMillicores } from "../../base/quantity.ts";
import type { Container, Handler, PodTemplateSpec } from "../schema/pod-template.ts";
import { cellPort, ContainerSpec, type EmptyDir, guestControlPort } from "../wire/cell-api.ts";

/** The prefix of variables that only the kubelet can resolve (`valueFrom`, `envFrom`); see `cell-container.ts`. */
export const environmentPrefix = "RAMET_ENV_";
/** The cell's container mounts the n-th volume mount of the template, sorted by target, at `/ramet/mounts/<n>`. */
export const mountsPath = "/ramet/mounts";

export interface ResolvedContainer {
  spec: ContainerSpec;
  /** Names of variables whose values are in other objects. The kubelet resolves them. */
  unresolvedEnvironment: string[];
}

/** Returns the container that becomes the sandbox: the first one of the template. */
export function mainContainer(template: PodTemplateSpec): Container {
  const [container] = template.spec.containers;
  if (container === undefined) throw new RametError("InvalidArgument", "spec.template.spec.containers is empty");
  return container;
}

/**
 * Returns what the cell runs, from the main container of a Pod template.
 * @throws RametError `InvalidArgument` that names an unsupported field
 */
export function containerSpec(template: PodTemplateSpec): ResolvedContainer {
  const container = mainContainer(template);
  if (container.volumeDevices?.length) {
    throw new RametError(
      "InvalidArgument",
      `${at(container)}.volumeDevices: a sandbox does not support block devices`,
      { hint: "Use a volume with a filesystem and volumeMounts" },
    );
  }
  const { variables, unresolved } = environment(container);
  const expand = (text: string): string => expandVariables(text, (name) => variables.get(name));
  const limits = container.resources?.limits ?? {};
  const input: z.input<typeof ContainerSpec> = {
    name: container.name,
    image: container.image,
    command: (container.command ?? []).map(expand),
    args: (container.args ?? []).map(expand),
    workingDir: container.workingDir,
    env: [...variables].map(([name, value]) => ({ name, value })),
    user: user(template, container),
    userOfImage: namesUser(template, container) ? undefined : true,
    ports: reachablePorts(container),
    readOnlyRoot: container.securityContext?.readOnlyRootFilesystem ?? false,
    mounts: sortedMounts(container).map((mount, index) => ({
      source: `${mountsPath}/${index}`,
      target: mount.mountPath,
      readOnly: mount.readOnly ?? false,
      emptyDir: ownEmptyDir(template, mount),
    })),
    resources: {
      memoryBytes: limit(limits["memory"], quantityToBytes, `${at(container)}.resources.limits.memory`),
      cpuMillis: limit(limits["cpu"], quantityToMillicores, `${at(container)}.resources.limits.cpu`),
      storageBytes: limit(
        limits["ephemeral-storage"],
        quantityToBytes,
        `${at(container)}.resources.limits.ephemeral-storage`,
      ),
    },
  };
  return { spec: ContainerSpec.parse(input), unresolvedEnvironment: unresolved };
}

/** Sorted by target, so that the order in the template does not matter. */
export function sortedMounts(container: Container): NonNullable<Container["volumeMounts"]> {
  return [...(container.volumeMounts ?? [])].sort((a, b) =>
    a.mountPath < b.mountPath ? -1 : a.mountPath > b.mountPath ? 1 : 0,
  );
}

/**
 * Returns the variables with literal values, each expanded with the ones before it, and the names of the others. If a name
 * occurs more than once, the last one applies.
 */
function environment(container: Container): { variables: Map<string, string>; unresolved: string[] } {
  const variables = new Map<string, string>();
  const unresolved = new Set<string>();
  for (const { name, value, valueFrom } of container.env ?? []) {
    variables.delete(name);
    unresolved.delete(name);
    if (valueFrom === undefined) {
      variables.set(
        name,
        expandVariables(value ?? "", (other) => variables.get(other)),
      );
    } else unresolved.add(name);
  }
  return { variables, unresolved: [...unresolved] };
}

/** The container's ids take precedence over the Pod's. The default is root, unless the node knows the image's user. */
function user(template: PodTemplateSpec, container: Container): { uid: number; gid: number } {
  const pod = template.spec.securityContext;
  return {
    uid: container.securityContext?.runAsUser ?? pod?.runAsUser ?? 0,
    gid: container.securityContext?.runAsGroup ?? pod?.runAsGroup ?? 0,
  };
}

function namesUser(template: PodTemplateSpec, { securityContext }: Container): boolean {
  return (securityContext?.runAsUser ?? template.spec.securityContext?.runAsUser) !== undefined;
}

/** Declared TCP ports, and the ports of the kubelet's probes and hooks, which must be reachable at the Pod IP. */
function reachablePorts(container: Container): number[] {
  const declared = (container.ports ?? []).filter(({ protocol }) => (protocol ?? "TCP") === "TCP");
  const { startupProbe, readinessProbe, livenessProbe, lifecycle } = container;
  const knocked = [startupProbe, readinessProbe, livenessProbe, lifecycle?.postStart, lifecycle?.preStop].flatMap(
    (handler) => handlerPorts(handler),
  );
  const ports = [...new Set([...declared.map(({ containerPort }) => containerPort), ...knocked])].sort((a, b) => a - b);
  const reserved = ports.find((port) => port >= cellPort && port <= guestControlPort);
  if (reserved === undefined) return ports;
  throw new RametError("InvalidArgument", `${at(container)}.ports: port ${reserved} is reserved for Ramet`, {
    hint: `Use a port other than ${cellPort} to ${guestControlPort}`,
  });
}

/** A named port is one of the declared ports. */
function handlerPorts(handler: Handler | undefined): number[] {
  const ports = [handler?.httpGet?.port, handler?.tcpSocket?.port, handler?.grpc?.port];
  return ports.filter((port): port is number => typeof port === "number");
}

function limit(
  quantity: string | number | undefined,
  read: (quantity: string | number, field: string) => number,
  field: string,
): number | undefined {
  const value = quantity === undefined ? 0 : read(quantity, field);
  // In Kubernetes a limit of zero means no limit.
  return value > 0 ? Math.min(value, Number.MAX_SAFE_INTEGER) : undefined;
}

function at(container: Container): string {
  return `spec.template.spec.containers[${container.name}]`;
}

type VolumeMount = NonNullable<Container["volumeMounts"]>[number];

/**
 * Returns the emptyDir of a mount if only the sandbox uses it. An emptyDir stays a directory of the Pod if another container
 * mounts it too (an init container or a sidecar), if it is mounted twice (for example by sub-path), or read-only.
 * @throws RametError `InvalidArgument` for a `sizeLimit` that is not a quantity
 */
function ownEmptyDir({ spec }: PodTemplateSpec, { name, readOnly }: VolumeMount): EmptyDir | undefined {
  const volume = spec.volumes?.find((one) => one.name === name);
  if (readOnly === true || volume?.["emptyDir"] === undefined || mountCount({ spec }, name) !== 1) return undefined;
  const { sizeLimit } = Source.parse(volume["emptyDir"] ?? {});
  if (sizeLimit === undefined) return {};
  const sizeLimitBytes = quantityToBytes(sizeLimit, `spec.template.spec.volumes[${name}].emptyDir.sizeLimit`);
  // In Kubernetes a limit of zero means no limit.
  return sizeLimitBytes > 0 ? { sizeLimitBytes: Math.min(sizeLimitBytes, Number.MAX_SAFE_INTEGER) } : {};
}

const Source = z.looseObject({ sizeLimit: z.union([z.string(), z.number()]).optional() });

/** Counts the mounts in all containers of the Pod. A container can mount a volume any number of times. */
export function mountCount({ spec }: PodTemplateSpec, volumeName: string): number {
  return [...spec.containers, ...(spec.initContainers ?? [])]
    .flatMap((container) => Mounts.parse(container).volumeMounts)
    .filter(({ name }) => name === volumeName).length;
}

const Mounts = z.looseObject({ volumeMounts: z.array(z.looseObject({ name: z.string() })).default([]) });

/**
 * Expands `$(NAME)` in a command, an argument or a value as Kubernetes does: a reference to an unknown name is kept, and `$$`
 * becomes `$`. (Kubernetes: "Define Dependent Environment Variables".)
 * @param lookup returns the value of a variable, or undefined if it is unknown
 */
export function expandVariables(text: string, lookup: (name: string) => string | undefined): string {
  return text.replace(/\$(?:\$|\(([^)]*)\))/g, (reference, name: string | undefined) =>
    name === undefined ? "$" : (lookup(name) ?? reference),
  );
}
