import * as z from "zod";
import { rotationConfigMap } from "../api/names/key-rotation.ts";
import type { KubeClient } from "../kube/kube-client.ts";
import { ObjectMeta } from "../kube/object.ts";
import { coreResources } from "../kube/resource-ref.ts";

/** The ConfigMap through which users request rotations of keys and controllers report them, by entry. */
export class RotationEntries {
  readonly #client: KubeClient;

  constructor(client: KubeClient) {
    this.#client = client;
  }

  async read(signal: AbortSignal): Promise<Record<string, string>> {
    return (await this.#configMaps.find(rotationConfigMap, { signal }))?.data ?? {};
  }

  /** Changes these entries only. Creates the ConfigMap if it does not exist, also in the middle of a rotation. */
  async write(data: Record<string, string>, signal: AbortSignal): Promise<void> {
    const found = await this.#configMaps.find(rotationConfigMap, { signal });
    if (found !== undefined) {
      await this.#configMaps.mergePatch(rotationConfigMap, { data }, { signal });
      return;
    }
    const configMap = { apiVersion: "v1", kind: "ConfigMap", metadata: rotationConfigMap, data };
    await this.#configMaps.create(configMap, { signal });
  }

  get #configMaps() {
    return this.#client.resource(coreResources.configMaps, (value) => ConfigMap.parse(value));
  }
}

const ConfigMap = z.looseObject({
  metadata: ObjectMeta,
  data: z.record(z.string(), z.string()).optional(),
});
