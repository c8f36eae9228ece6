import * as z from "zod";
import { sandboxKind } from "../api/kinds/sandbox.ts";
import { gatewayKeySecret, privateKeyEntry, systemNamespace } from "../api/names/system-names.ts";
import { group, version } from "../api/schema/kind.ts";
import { delay, untilAborted } from "../base/clock.ts";
import { type Log, silentLog } from "../base/log.ts";
import { CellClient } from "../cell/client/cell-client.ts";
import { type CellKey, cellKeyFromPem } from "../cell/client/cell-token.ts";
import { Informer } from "../kube/informer.ts";
import type { KubeClient } from "../kube/kube-client.ts";
import type { Liveness } from "../kube/liveness.ts";
import { ObjectMeta } from "../kube/object.ts";
import { coreResources } from "../kube/resource-ref.ts";
import { apiServerAccess } from "./access.ts";
import { gatewayMetrics, type GatewayMetrics } from "./metrics.ts";
import { readRoutedSandbox } from "./routed-sandbox.ts";
import { serveGateway } from "./server.ts";
import { Upstreams } from "./upstreams.ts";

export interface RunGatewayOptions {
  client: KubeClient;
  /** 0: any that is free. */
  port: number;
  address: string;
  /** For so long it goes on to take connections when it is to end: who sends it some has not heard yet. @default 0 */
  shutdownDelayMilliseconds?: number;
  metrics?: GatewayMetrics;
  /** Learns when the informer of sandboxes has stopped. */
  liveness?: Liveness;
  log?: Log;
  /** Called when it can route. */
  onReady?: (port: number) => void;
  /** Called when it is about to end: no new connections should come. */
  onEnding?: () => void;
  signal: AbortSignal;
}

/** What is under way then may take so long. */
const drainMilliseconds = 20_000;

/**
 * Carries traffic to ports of sandboxes until `signal` is aborted. It keeps nothing but caches, so that any number of them may run.
 * @throws RametError `Unavailable` when its port cannot be opened; `Forbidden` when it may not read its key
 */
export async function runGateway(options: RunGatewayOptions): Promise<void> {
  const { client, port, address, metrics = gatewayMetrics(), log = silentLog, signal } = options;
  const { plural, kind } = sandboxKind;
  const resource = client.resource({ group, version, plural, kind, namespaced: true }, readRoutedSandbox);
  const sandboxes = new Informer({ resource, log });
  metrics.sandboxes(() => sandboxes.store.size);
  const following = new AbortController();
  const followed = sandboxes.run(following.signal, options.liveness);
  try {
    const key = await gatewayKey(client, log, signal);
    await sandboxes.synced(signal);
    const cells = new CellClient(key);
    const upstreams = new Upstreams(cells, (uid) => sandboxes.store.byUid(uid));
    const access = apiServerAccess(client);
    const common = { port, address, metrics, clock: client.clock, log };
    const server = await serveGateway({ ...common, sandboxes: sandboxes.store, access, upstreams });
    options.onReady?.(server.port);
    await untilAborted(signal);
    options.onEnding?.();
    await delay(client.clock, options.shutdownDelayMilliseconds ?? 0);
    await server.close(drainMilliseconds);
    await upstreams.close();
    cells.close();
  } catch (error) {
    if (!signal.aborted) throw error;
  } finally {
    following.abort();
    await followed;
  }
}

const pauseMilliseconds = 250;

/** The key of this cluster's gateways; waits for the controllers to make it. @throws RametError `Forbidden`, `Canceled` */
async function gatewayKey(client: KubeClient, log: Log, signal: AbortSignal): Promise<CellKey> {
  const secrets = client.resource(coreResources.secrets, (value) => KeySecret.parse(value));
  const at = { namespace: systemNamespace, name: gatewayKeySecret };
  for (let tries = 0; ; tries += 1) {
    const found = await secrets.find(at, { signal });
    if (found !== undefined) return cellKeyFromPem(Buffer.from(found.data[privateKeyEntry], "base64").toString("utf8"));
    if (tries === 0)
      log.info({ secret: `${at.namespace}/${at.name}` }, "the gateway waits for its key, which the controllers make");
    await delay(client.clock, pauseMilliseconds, signal);
  }
}

const KeySecret = z.looseObject({
  metadata: ObjectMeta,
  data: z.looseObject({ [privateKeyEntry]: z.string().min(1) }),
});
