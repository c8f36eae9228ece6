import { group, version } from "../api/schema/kind.ts";
import { sandboxKind } from "../api/kinds/sandbox.ts";
import { CellClient } from "../cell/client/cell-client.ts";
import { delay } from "../base/clock.ts";
import { Informer } from "../kube/informer.ts";
import type { KubeClient } from "../kube/kube-client.ts";
import { untilAborted } from "../base/until-aborted.ts";
import { silentLog, type Log } from "../base/log.ts";
import { apiServerAccess } from "./access.ts";
import { gatewayKey } from "./gateway-key.ts";
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
  const followed = sandboxes.run(following.signal);
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
