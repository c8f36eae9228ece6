import type { Log } from "../../base/log.ts";
import type { KubeObject } from "../../kube/object.ts";
import type { Informer } from "../../kube/informer.ts";
import type { KubeClient } from "../../kube/kube-client.ts";
import type { Liveness } from "../../kube/liveness.ts";
import { clientInformers } from "./known-objects.ts";
import { type ServiceParts, serviceParts } from "./parts.ts";

export interface ServiceOptions {
  client: KubeClient;
  /** The only namespaces whose objects it knows. @default all */
  namespaces?: readonly string[] | undefined;
  aliases?: ReadonlyMap<string, string>;
  /** Followed as long as those of the service. */
  others?: readonly Pick<Informer<KubeObject>, "run" | "synced">[];
  liveness?: Liveness;
  log: Log;
  signal: AbortSignal;
}

/**
 * Runs `use` with the application service once its caches are filled, and follows the cluster until it returns.
 * @throws RametError that of the first list, such as `Forbidden`; `Canceled`
 */
export async function withService(
  { client, aliases = new Map(), others = [], liveness, signal, ...watching }: ServiceOptions,
  use: (service: ServiceParts) => Promise<void>,
): Promise<void> {
  const informers = clientInformers(client, watching);
  const { sandboxes, checkpoints, templates, sets, snapshots } = informers;
  const all = [sandboxes, checkpoints, templates, sets, snapshots, ...others];
  const following = new AbortController();
  const followed = all.map((informer) => informer.run(following.signal, liveness));
  const service = serviceParts(client, informers, aliases);
  try {
    await Promise.all(all.map((informer) => informer.synced(signal)));
    await use(service);
  } finally {
    service.close();
    following.abort();
    await Promise.all(followed);
  }
}
