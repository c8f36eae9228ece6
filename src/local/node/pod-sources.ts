import { mkdir } from "node:fs/promises";
import { join } from "node:path";
import { RametError } from "../../api/errors.ts";
import type { Container } from "../../api/pod-template.ts";
import type { PodFolder } from "./pod-folder.ts";
import type { NodePod } from "./pod.ts";

/** Variables and folders of a Pod's container, from what the Pod says and from other objects. */
export class PodSources {
  /** @throws RametError `NotFound` naming the object that is not there */
  variables(_pod: NodePod, container: Container, _ip: string): Promise<ReadonlyMap<string, string>> {
    const variables = new Map<string, string>();
    for (const { name, value, valueFrom } of container.env ?? []) {
      if (valueFrom !== undefined)
        throw new RametError("InvalidArgument", `spec.containers[0].env[${name}].valueFrom cannot be resolved`);
      variables.set(name, value ?? "");
    }
    return Promise.resolve(variables);
  }

  /** Host folders by the path at which the container has them. */
  async mounts(pod: NodePod, container: Container, folder: PodFolder): Promise<ReadonlyMap<string, string>> {
    const mounts = new Map<string, string>();
    for (const { name, mountPath } of container.volumeMounts ?? []) {
      const volume = pod.spec.volumes?.find((one) => one.name === name);
      if (volume?.["emptyDir"] === undefined) continue;
      const path = join(folder.volumes, name);
      await mkdir(path, { recursive: true });
      mounts.set(mountPath, path);
    }
    return mounts;
  }
}
