import { rotationConfigMap } from "../api/names/key-rotation.ts";
import type { KubeClient } from "../kube/kube-client.ts";
import { changeEntries } from "./kept-secret.ts";

/** The ConfigMap through which users request rotations of keys and controllers report them, by entry. */
export class RotationEntries {
  readonly #client: KubeClient;

  constructor(client: KubeClient) {
    this.#client = client;
  }

  async read(signal: AbortSignal): Promise<Record<string, string>> {
    return (await this.#client.configMaps.find(rotationConfigMap, { signal }))?.data ?? {};
  }

  /** Changes these entries only. Creates the ConfigMap if it does not exist, also in the middle of a rotation. */
  async write(data: Record<string, string>, signal: AbortSignal): Promise<void> {
    await changeEntries(this.#client, rotationConfigMap, data, signal);
  }
}
