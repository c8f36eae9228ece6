import * as z from "zod";
import { RametError } from "../../base/errors.ts";
import { quantityToBytes, quantityToMillicores } from "../../base/quantity.ts";
import type { Container, Handler, PodTemplateSpec } from "../schema/pod-template.ts";
import { cellPort, ContainerSpec, type EmptyDir, guestControlPort } from "./cell-api.ts";

/** Under this prefix the kubelet gives the cell what only it can resolve (`valueFrom`, `envFrom`); see `cell-pod.ts`. */
export const environmentPrefix = "RAMET_ENV_";
/** The cell container mounts the template's n-th volume mount, by target, at `/ramet/mounts/<n>`. */
export const mountsPath = "/ramet/mounts";

export interface ResolvedContainer {
  spec: ContainerSpec;
  /** Names of variables whose values stand in other objects. The kubelet resolves them, not we. */
  unresolvedEnvironment: string[];
}

/** The container that becomes the sandbox: the template's first. */
export function mainContainer(template: PodTemplateSpec): Container {
  const [container] = template.spec.containers;
  if (container === undefined) throw new RametError("InvalidArgument", "spec.template.spec.containers is empty");
  return container;
}

/**
 * What the cell is to run, from a Pod template's main container.
 * @throws RametError `InvalidArgument` naming the field that cannot be honoured
 */
export function containerSpec(template: PodTemplateSpec): ResolvedContainer {
  const container = mainContainer(template);
  if (container.volumeDevices?.length) {
    throw new RametError("InvalidArgument", `${at(container)}.volumeDevices: a sandbox cannot have block devices`, {
      hint: "Use a volume with a filesystem and volumeMounts",
    });
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
    },
  };
  return { spec: ContainerSpec.parse(input), unresolvedEnvironment: unresolved };
}

/** By target, so that two templates that differ in the order alone are one container. */
export function sortedMounts(container: Container): NonNullable<Container["volumeMounts"]> {
  return [...(container.volumeMounts ?? [])].sort((a, b) =>
    a.mountPath < b.mountPath ? -1 : a.mountPath > b.mountPath ? 1 : 0,
  );
}

/**
 * The variables with literal values, each expanded by those before it, the last of a name standing; and the names of the
 * others. A name that is given both ways is what came last.
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

/** The container's own ids go before the Pod's; where neither says, root, unless the node knows the image's. */
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

/** Declared TCP ports, and those that the kubelet's probes and hooks knock at: they must be reachable at the Pod IP. */
function reachablePorts(container: Container): number[] {
  const declared = (container.ports ?? []).filter(({ protocol }) => (protocol ?? "TCP") === "TCP");
  const { startupProbe, readinessProbe, livenessProbe, lifecycle } = container;
  const knocked = [startupProbe, readinessProbe, livenessProbe, lifecycle?.postStart, lifecycle?.preStop].flatMap(
    (handler) => handlerPorts(handler),
  );
  const ports = [...new Set([...declared.map(({ containerPort }) => containerPort), ...knocked])].sort((a, b) => a - b);
  const reserved = ports.find((port) => port === cellPort || port === guestControlPort);
  if (reserved === undefined) return ports;
  throw new RametError("InvalidArgument", `${at(container)}.ports: ${reserved} is Ramet's own port`, {
    hint: `Let the sandbox listen on another port than ${cellPort} and ${guestControlPort}`,
  });
}

/** A port that is given by name is one of the declared ones anyway. */
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
  // Kubernetes takes a limit of zero for none.
  return value > 0 ? value : undefined;
}

function at(container: Container): string {
  return `spec.template.spec.containers[${container.name}]`;
}

type VolumeMount = NonNullable<Container["volumeMounts"]>[number];

/**
 * The emptyDir behind a mount of the sandbox's container, if it is the sandbox's alone. What another container of the Pod
 * mounts too, an init container that fills it or a sidecar, stays a folder of the Pod; so does one that is mounted twice,
 * by sub-path say, and one that is mounted read-only.
 * @throws RametError `InvalidArgument` for a `sizeLimit` that is no quantity
 */
function ownEmptyDir({ spec }: PodTemplateSpec, { name, readOnly }: VolumeMount): EmptyDir | undefined {
  const volume = spec.volumes?.find((one) => one.name === name);
  if (readOnly === true || volume?.["emptyDir"] === undefined || mountCount({ spec }, name) !== 1) return undefined;
  const { sizeLimit } = Source.parse(volume["emptyDir"] ?? {});
  if (sizeLimit === undefined) return {};
  const sizeLimitBytes = quantityToBytes(sizeLimit, `spec.template.spec.volumes[${name}].emptyDir.sizeLimit`);
  // Kubernetes takes a limit of zero for none.
  return sizeLimitBytes > 0 ? { sizeLimitBytes } : {};
}

const Source = z.looseObject({ sizeLimit: z.union([z.string(), z.number()]).optional() });

/** Over all containers of the Pod: each can mount a volume any number of times. */
function mountCount({ spec }: PodTemplateSpec, volumeName: string): number {
  return [...spec.containers, ...(spec.initContainers ?? [])]
    .flatMap((container) => Mounts.parse(container).volumeMounts)
    .filter(({ name }) => name === volumeName).length;
}

const Mounts = z.looseObject({ volumeMounts: z.array(z.looseObject({ name: z.string() })).default([]) });

/**
 * `$(NAME)` in a command, an argument or a value, as Kubernetes expands it: a name that is not known stays as it is
 * written, and `$$` is one `$`. (Kubernetes: "Define Dependent Environment Variables".)
 * @param lookup the value of a variable; undefined: not known
 */
export function expandVariables(text: string, lookup: (name: string) => string | undefined): string {
  return text.replace(/\$(?:\$|\(([^)]*)\))/g, (reference, name: string | undefined) =>
    name === undefined ? "$" : (lookup(name) ?? reference),
  );
}
