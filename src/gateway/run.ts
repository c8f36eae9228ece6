import { sandboxKind } from "../api/kinds/sandbox.ts";
import { group, version } from "../api/schema/kind.ts";
import { delay, untilAborted } from "../base/clock.ts";
import { RametError } from "../base/errors.ts";
import { type Log, silentLog } from "../base/log.ts";
import { within } from "../base/within.ts";
import { CellClient } from "../cell/client/cell-client.ts";
import { ApiKeys } from "../kube/api-keys.ts";
import { Informer } from "../kube/informer.ts";
import type { KubeClient } from "../kube/kube-client.ts";
import type { Liveness } from "../kube/liveness.ts";
import { ClientApi } from "./client-api.ts";
import { ClientKeys } from "./client-keys.ts";
import { dialWithCurrentKey, gatewayKey } from "./gateway-key.ts";
import { apiServerAccess } from "./access.ts";
import { defaultLimits, type GatewayLimits } from "./limits.ts";
import { gatewayMetrics, type GatewayMetrics } from "./metrics.ts";
import { readRoutedSandbox } from "./routed-sandbox.ts";
import { derivedTokens, type SandboxTokens } from "./sandbox-tokens.ts";
import { serveGateway } from "./server.ts";
import { ServingSandboxes } from "./serving-sandboxes.ts";
import { serviceAccountTokens } from "./token-verifier.ts";
import type { TlsFiles } from "./tls.ts";
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
  /** The only namespaces whose sandboxes it knows. @default all */
  servedNamespaces?: readonly string[] | undefined;
  /** The certificate of the port. @default it serves without TLS */
  tls?: TlsFiles | undefined;
  /** Asks the API server about every token, also about those that its service account keys did not sign. @default false */
  reviewOnly?: boolean;
  /**
   * Lets clients enter sandboxes: adds the guest's access token to requests of clients with the right, and accepts the sandbox's own
   * tokens. @default true
   */
  exec?: boolean;
  /** The server to which it proxies requests that name no sandbox. @default none: it refuses them */
  clientApi?: URL | undefined;
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

/** At the start, the keys of clients have this much time. */
const keysMilliseconds = 10_000;

/**
 * Proxies traffic to sandbox ports until `signal` aborts. A gateway keeps only caches, so any number of replicas can run.
 * @throws RametError `Unavailable` when the port cannot be opened; `Forbidden` when the gateway may not read its key or
 *   the keys of tokens
 */
export async function runGateway(options: RunGatewayOptions): Promise<void> {
  const { client, port, address, metrics = gatewayMetrics(), log = silentLog, signal } = options;
  const { plural, kind } = sandboxKind;
  const resource = client.resource({ group, version, plural, kind, namespaced: true }, readRoutedSandbox);
  const sandboxes = new Informer({ resource, namespaces: options.servedNamespaces, log });
  metrics.sandboxes(() => sandboxes.store.size);
  const following = new AbortController();
  const { follow, known, sandboxTokens } = entering(options);
  const followed = Promise.all([
    sandboxes.run(following.signal, options.liveness),
    follow(following.signal, options.liveness),
  ]);
  try {
    const key = await gatewayKey(client, log, signal);
    const tokens = options.reviewOnly === true ? undefined : await serviceAccountTokens(client, signal);
    await Promise.all([sandboxes.synced(signal), known()]);
    const cells = new CellClient(key, {
      clock: client.clock,
      onNotProven: ({ ip, sandboxUid }, error) => {
        metrics.cellNotProven();
        log.warn({ ip, sandboxUid, error: error.describe() }, "a connection to a sandbox was refused");
      },
    });
    const upstreams = new Upstreams(dialWithCurrentKey(cells, { key, client, log }), (uid) =>
      sandboxes.store.byUid(uid),
    );
    sandboxes.store.subscribe(({ type, object }) => {
      upstreams.closeEarlier(object, type === "deleted");
    });
    const access = apiServerAccess({ client, tokens, metrics });
    const limits = { ...defaultLimits, ...options.limits };
    const { trustedProxies = [], tls } = options;
    const clientApi = clientApiOf(options);
    const common = { port, address, metrics, limits, trustedProxies, tls, clientApi, clock: client.clock, log };
    const serving = new ServingSandboxes({
      store: sandboxes.store,
      clientApi,
      sandboxTokens,
      answers: (sandbox, left) => upstreams.answers(sandbox, left),
      metrics,
      clock: client.clock,
    });
    const routing = { sandboxes: sandboxes.store, serving, access, sandboxTokens };
    const server = await serveGateway({ ...common, ...routing, upstreams });
    options.onReady?.(server.port);
    await untilAborted(signal);
    options.onEnding?.();
    await delay(client.clock, options.shutdownDelayMilliseconds ?? 0);
    await server.close(drainMilliseconds);
    serving.close();
    await Promise.all([upstreams.close(), clientApi?.close()]);
    cells.close();
  } catch (error) {
    if (!signal.aborted) throw error;
  } finally {
    following.abort();
    await followed;
  }
}

function clientApiOf({ client, clientApi, log = silentLog }: RunGatewayOptions): ClientApi | undefined {
  return clientApi && new ClientApi(clientApi, client.clock, log);
}

interface Entering {
  follow: (signal: AbortSignal, liveness?: Liveness) => Promise<void>;
  /** Waits a moment for the keys of clients. */
  known: () => Promise<void>;
  sandboxTokens?: SandboxTokens;
}

/** How clients enter sandboxes. A gateway that cannot read the keys of clients serves those with tokens for gateways. */
function entering({ exec = true, client, servedNamespaces, log = silentLog, signal }: RunGatewayOptions): Entering {
  if (!exec) return { follow: () => Promise.resolve(), known: () => Promise.resolve() };
  const keys = new ApiKeys(client, { namespaces: servedNamespaces, log });
  const { informer } = keys;
  const moment = { clock: client.clock, milliseconds: keysMilliseconds, what: "Reading the API keys", signal };
  return {
    follow: (ending, liveness) => informer.run(ending, liveness),
    known: () =>
      within(moment, (either) => informer.synced(either)).catch((error: unknown) => {
        if (signal.aborted) return;
        log.error(
          { error: RametError.from(error).message },
          "the gateway refuses access tokens of clients, because it cannot read the API keys",
        );
      }),
    sandboxTokens: derivedTokens(client, new ClientKeys(keys)),
  };
}
