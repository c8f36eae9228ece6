import type { Container, Handler, Volume } from "../schema/pod-template.ts";
import { type CellConfig, cellPort } from "./cell-api.ts";
import { environmentPrefix, expandVariables, mountsPath, sortedMounts } from "./container-spec.ts";

/** Where the template's image is mounted in the cell's container. */
export const rootPath = "/ramet/root";
const rootVolume = "ramet-root";

/** The cell's capabilities, with all others dropped. None of them reaches the sandbox: gVisor gives it its own. */
const cellCapabilities = [
  "NET_ADMIN", // link: namespaces' veth pair, addresses, routes and the proxy's packet rules
  "SYS_ADMIN", // cell and runsc: unshare, mount and pivot_root for the sandbox, setns for link
  "SYS_CHROOT", // runsc: the gofer and the sentry shut themselves into an empty root
  "SYS_PTRACE", // runsc: systrap attaches to the processes that carry the sandbox's threads
  "SETUID", // runsc: the sentry runs as nobody
  "SETGID", // the same, for its groups
  "SETFCAP", // runsc: the gofer's user namespace maps root, which Linux allows since 5.12 to who has this
  "SETPCAP", // runsc: drops what it no longer needs from the bounding set
  "DAC_OVERRIDE", // runsc's gofer: files of the image that only their owner may read
  "CHOWN", // runsc's gofer: files that the sandbox makes in a volume belong to the sandbox's users
  "NET_BIND_SERVICE", // link: the sandbox's resolver, port 53 of the gateway namespace
  "NET_RAW", // link and runsc: packet sockets on the veth pair's ends
] as const;

/** The template's image as a volume. Its pull policy goes with it. */
export function imageVolume({ image, imagePullPolicy }: Container): Volume {
  return {
    name: rootVolume,
    image: { reference: image, ...(imagePullPolicy !== undefined && { pullPolicy: imagePullPolicy }) },
  };
}

/** The cell in place of the main container, under its name: `kubectl logs` and metrics find what they always found. */
export function cellContainer(container: Container, config: CellConfig, image: string): Container {
  const { name, resources, lifecycle } = container;
  const { postStart, preStop } = lifecycle ?? {};
  return {
    name,
    image,
    env: environment(container, config),
    ...(container.envFrom && {
      envFrom: container.envFrom.map((source) => ({ ...source, prefix: environmentPrefix + (source.prefix ?? "") })),
    }),
    ports: [...(container.ports ?? []), { name: "ramet-cell", containerPort: cellPort, protocol: "TCP" }],
    ...(resources && { resources }),
    volumeMounts: [
      ...sortedMounts(container).map((mount, index) => ({
        ...withSubPath(mount, config),
        mountPath: `${mountsPath}/${index}`,
      })),
      { name: rootVolume, mountPath: rootPath, readOnly: true },
    ],
    ...probe("startupProbe", container.startupProbe),
    ...probe("livenessProbe", container.livenessProbe),
    readinessProbe: container.readinessProbe ? inSandbox(container.readinessProbe) : cellReadiness,
    ...(lifecycle && {
      lifecycle: {
        ...(postStart && { postStart: inSandbox(postStart, "--at-start") }),
        ...(preStop && { preStop: inSandbox(preStop) }),
      },
    }),
    securityContext: {
      // Root in its own container, whatever the Pod says of its other containers.
      runAsUser: 0,
      runAsGroup: 0,
      runAsNonRoot: false,
      capabilities: { drop: ["ALL"], add: [...cellCapabilities] },
      // RuntimeDefault refuses pivot_root, and AppArmor's default profile refuses mounts: runsc needs both.
      seccompProfile: { type: "Unconfined" },
      appArmorProfile: { type: "Unconfined" },
    },
  };
}

const cellReadiness = {
  httpGet: { path: "/readyz", port: cellPort },
  periodSeconds: 1,
  timeoutSeconds: 1,
  failureThreshold: 3,
};

/**
 * The cell's own setting, and what only the kubelet can resolve. The user's variables do not stand here as such: a
 * NODE_OPTIONS or PATH meant for the sandbox must not reach the cell.
 */
function environment(container: Container, config: CellConfig): NonNullable<Container["env"]> {
  const resolved = (container.env ?? []).filter(({ valueFrom }) => valueFrom !== undefined);
  return [
    ...resolved.map(({ name, valueFrom }) => ({ name: environmentPrefix + name, valueFrom })),
    { name: "RAMET_CELL", value: cellConfigJson(config) },
  ];
}

/** `subPathExpr` names variables of the container: literal ones are filled in, the kubelet's have another name here. */
function withSubPath<Mount extends Record<string, unknown>>(mount: Mount, config: CellConfig): Mount {
  const expression = mount["subPathExpr"];
  if (typeof expression !== "string") return mount;
  const literal = new Map(config.container.env.map(({ name, value }) => [name, value]));
  const subPathExpr = expandVariables(expression, (name) => literal.get(name) ?? `$(${environmentPrefix}${name})`);
  return { ...mount, subPathExpr };
}

/** The kubelet expands `$(NAME)` and `$$` in a variable's value. With no `$` in the text there is nothing to expand. */
function cellConfigJson(config: CellConfig): string {
  return JSON.stringify(config).replaceAll("$", "\\u0024");
}

function probe(name: "startupProbe" | "livenessProbe", handler: Handler | undefined): Partial<Container> {
  return handler === undefined ? {} : { [name]: inSandbox(handler) };
}

/** A command of a probe or hook is meant for the sandbox, and the kubelet starts it beside the cell: the cell passes it on. */
function inSandbox(handler: Handler, ...options: string[]): Handler {
  if (handler.exec === undefined) return handler;
  return {
    ...handler,
    exec: { command: ["ramet", "cell", "exec", ...options, "--", ...(handler.exec.command ?? [])] },
  };
}
