import { KubeClient } from "../../src/kube/kube-client.ts";
import { connectionFromKubeconfig } from "../../src/kube/kubeconfig.ts";
import type { VolumesSetting } from "./setting.ts";

export async function clientOf({ kubeconfig, context }: VolumesSetting): Promise<KubeClient> {
  return new KubeClient(await connectionFromKubeconfig({ path: kubeconfig, ...(context && { context }) }));
}
