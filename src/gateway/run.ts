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
import { defaultLimits, type GatewayLimits } from "./limits.ts";
import { gatewayMetrics, type GatewayMetrics } from "./metrics.ts";
import { readRoutedSandbox } from "./routed-sandbox.ts";
import { serveGateway } from "./server.ts";
import { serviceAccountTokens } from "./token-verifier.ts";
import { Upstreams } from "./upstreams.ts";

export interface RunGatewayOptions {
  client: KubeClient;
  /** 0 selects a free port. */
  port: number;
  address: string;
  /** At shutdown, keeps accepting connections for this long, until load balancers have noticed. @default 0 */
  shutdownDelayMilliseconds?: number;
  metrics?: GatewayMetrics;
  /** @default `defaultLimits` */
  limits?: Partial<GatewayLimits>;
  /** The networks of the proxies in front of the gateway, such as `10.0.0.0/8`. @default none */
  trustedProxies?: readonly string[];
  /** Asks the API server about every token, also about those that its service account keys did not sign. @default false */
  reviewOnly?: boolean;
  /** Learns when the informer of sandboxes has stopped. */
  liveness?: Liveness;
  log?: Log;
  /** Called when the gateway can route requests. */
  onReady?: (port: number) => void;
  /** Called at the start of the shutdown, when the readiness probe must fail. */
  onEnding?: () => void;
  signal: AbortSignal;
}

/** At shutdown, requests in progress have this much time to finish. */
const drainMilliseconds = 20_000;

/**
 * Proxies traffic to sandbox ports until `signal` aborts. A gateway keeps only caches, so any number of replicas can run.
 * @throws RametError `Unavailable` when the port cannot be opened; `Forbidden` when the gateway may not read its key or
 *   the keys of tokens
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
    const tokens = options.reviewOnly === true ? undefined : await serviceAccountTokens(client, signal);
    await sandboxes.synced(signal);
    const cells = new CellClient(key);
    const upstreams = new Upstreams(cells, (uid) => sandboxes.store.byUid(uid));
    const access = apiServerAccess({ client, tokens, metrics });
    const limits = { ...defaultLimits, ...options.limits };
    const { trustedProxies = [] } = options;
    const common = { port, address, metrics, limits, trustedProxies, clock: client.clock, log };
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

/** Returns the key of this cluster's gateways. Waits until the controllers create it. @throws RametError `Forbidden`, `Canceled` */
async function gatewayKey(client: KubeClient, log: Log, signal: AbortSignal): Promise<CellKey> {
  const secrets = client.resource(coreResources.secrets, (value) => KeySecret.parse(value));
  const at = { namespace: systemNamespace, name: gatewayKeySecret };
  for (let attempt = 0; ; attempt += 1) {
    const found = await secrets.find(at, { signal });
    if (found !== undefined) return cellKeyFromPem(Buffer.from(found.data[privateKeyEntry], "base64").toString("utf8"));
    if (attempt === 0)
      log.info({ secret: `${at.namespace}/${at.name}` }, "waiting for the controllers to create the gateway's key");
    await delay(client.clock, pauseMilliseconds, signal);
  }
}

const KeySecret = z.looseObject({
  metadata: ObjectMeta,
  data: z.looseObject({ [privateKeyEntry]: z.string().min(1) }),
});
