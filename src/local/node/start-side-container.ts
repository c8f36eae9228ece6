import { mkdirSync } from "node:fs";
import { dirname } from "node:path";
import { containerSpec } from "../../api/pod/container-spec.ts";
import type { Container } from "../../api/schema/pod-template.ts";
import { CellConfig } from "../../api/wire/cell-api.ts";
import type { Clock } from "../../base/clock.ts";
import { RametError } from "../../base/errors.ts";
import { cellVariables, type PlacedContainer, sandboxConfig } from "./cell-environment.ts";
import { launchPod, type LaunchedPod } from "./launch-pod.ts";
import type { PodDirectory } from "./pod-directory.ts";
import { podVariables } from "./pod-variables.ts";
import type { ImageSource, NodePod } from "./pod.ts";
import { podVolumes, volumeBinds, volumeMounts } from "./pod-volumes.ts";
import { spareSetting } from "./spare-pods.ts";
import type { PodStarterOptions } from "./start-pod.ts";

export interface SideStart {
  pod: NodePod;
  container: Container;
  /** The Pod's directory. */
  directory: PodDirectory;
  ip: string;
  starter: PodStarterOptions;
  clock: Clock;
  onChange: () => void;
}

/**
 * Starts the cell of a container beside the sandbox. Call `give` when its process is recorded.
 * @throws RametError `ImageNotFound`; `NotFound` for a missing object; `InvalidArgument`
 */
export async function startSideContainer(
  { pod, container, directory: podDirectory, ip, starter }: SideStart,
  directory: PodDirectory,
): Promise<{ launched: LaunchedPod; give: () => void }> {
  const { images, objects, claims, hostIP, nodeName, cells, view } = starter;
  const { tools, cell } = cells.current;
  const policy = (container.imagePullPolicy ?? "IfNotPresent") as Parameters<ImageSource["image"]>[1];
  const image = await images.image(container.image, policy);
  const variables = await podVariables(pod, container, { objects, place: { podIP: ip, hostIP, nodeName } });
  const volumes = await podVolumes(pod, { directory: podDirectory, objects, claims });
  const mounts = volumeMounts(container, volumes, variables);
  mkdirSync(dirname(directory.path), { recursive: true, mode: 0o700 });
  directory.make();
  await image.hold?.(directory.path);
  const binds = volumeBinds(mounts);
  const inside = mounts.map(({ target, readOnly }, index) => ({
    source: binds[index]?.target ?? "",
    target,
    readOnly,
  }));
  const placed = { variables, image, ip, tools };
  const environment = {
    ...starter.environment,
    ...cellVariables(placed),
    RAMET_CELL: JSON.stringify(sideConfig(pod, container, placed, inside)),
    RAMET_CELL_SIDE_CONTAINER: "true",
    RAMET_CELL_SHARES_VOLUMES: "true",
  };
  const launched = await launchPod({
    link: tools.link,
    cell,
    // Its setting follows immediately.
    environment: { ...starter.environment, ...spareSetting, RAMET_LINK: tools.link },
    directory,
    // Only the sandbox's own cell captures and restores checkpoints.
    namespace: undefined,
    binds,
    view,
    // Its setting is larger than an environment variable can be.
    spare: true,
  });
  const { stdin } = launched.child;
  stdin?.on("error", () => undefined);
  return { launched, give: () => stdin?.end(`${JSON.stringify(environment)}\n`) };
}

/**
 * The setting of the cell that runs an init container or a sidecar: a gVisor sandbox of its own, with the egress policy of the
 * Pod's sandbox (docs/decisions/0021-side-containers.md).
 */
function sideConfig(
  pod: NodePod,
  container: Container,
  { variables, image }: PlacedContainer,
  mounts: CellConfig["container"]["mounts"],
): CellConfig {
  const { namespace, name: podName, uid } = pod.metadata;
  const { name, securityContext } = container;
  // Resolved values are not expanded again.
  const env = [...variables].map(([variable, value]) => ({ name: variable, value: value.replaceAll("$", "$$$$") }));
  const { spec } = containerSpec({ spec: { ...pod.spec, containers: [{ ...container, env }], volumes: [] } });
  const { entrypoint, cmd, user: imageUser } = image.config;
  if ([spec.command, spec.args, entrypoint, cmd].every((words) => words.length === 0))
    throw new RametError("InvalidArgument", `no command specified: neither container ${name} nor its image has one`);
  const user = spec.userOfImage === true ? (imageUser ?? spec.user) : spec.user;
  if (securityContext?.["runAsNonRoot"] === true && user.uid === 0)
    throw new RametError("InvalidArgument", `container has runAsNonRoot and ${name} will run as root`);
  const { dns, egress, clusterRanges, publicKey } = sandboxConfig(pod);
  return CellConfig.parse({
    v: 1,
    sandbox: { namespace, name: podName, uid: `${uid}-${name}` },
    container: { ...spec, mounts },
    rootPath: image.rootPath,
    templateDigest: "none",
    start: "boot",
    graceSeconds: pod.spec.terminationGracePeriodSeconds ?? 30,
    publicKey,
    dns,
    egress,
    clusterRanges,
  });
}
