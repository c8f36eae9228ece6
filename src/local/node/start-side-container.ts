import { mkdirSync } from "node:fs";
import { dirname } from "node:path";
import type { Container } from "../../api/schema/pod-template.ts";
import type { Clock } from "../../base/clock.ts";
import { launchPod, type LaunchedPod } from "./launch-pod.ts";
import type { PodDirectory } from "./pod-directory.ts";
import { podVariables } from "./pod-variables.ts";
import { directoryInside } from "./pod-view.ts";
import type { NodePod } from "./pod.ts";
import { podVolumes, volumeBinds, volumeMounts } from "./pod-volumes.ts";
import { sideContainerEnvironment } from "./side-container-config.ts";
import { spareSetting } from "./spare-pods.ts";
import type { PodStarterOptions } from "./pod-starter-options.ts";

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
  const policy = (container.imagePullPolicy ?? "IfNotPresent") as "Always" | "IfNotPresent" | "Never";
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
  const environment = {
    ...starter.environment,
    ...sideContainerEnvironment(pod, {
      container,
      variables,
      image,
      mounts: inside,
      directory: directoryInside,
      ip,
      tools,
    }),
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
