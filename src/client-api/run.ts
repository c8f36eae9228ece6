import * as z from "zod";
import { envdVersion } from "../api/wire/cell-api.ts";
import { guestKeySecret, guestSecretEntry, systemNamespace } from "../api/names/system-names.ts";
import { delay, untilAborted, type Clock } from "../base/clock.ts";
import { RametError } from "../base/errors.ts";
import { type Log, silentLog } from "../base/log.ts";
import { StaleOnErrorCache } from "../base/stale-on-error-cache.ts";
import type { KubeClient } from "../kube/kube-client.ts";
import type { Liveness } from "../kube/liveness.ts";
import { ObjectMeta } from "../kube/object.ts";
import { coreResources } from "../kube/resource-ref.ts";
import { agentTierDialect } from "./dialects/agenttier/dialect.ts";
import { e2bDialect } from "./dialects/e2b/dialect.ts";
import { Callers, RequestRates } from "./keys/callers.ts";
import { clientApiMetrics, type ClientApiMetrics } from "./metrics.ts";
import { serveClientApi, type Dialect } from "./server.ts";
import { AutoResumes } from "./service/auto-resume.ts";
import { guestAccess, portRequester } from "./service/guest-access.ts";
import { ClientSecrets } from "./service/client-secrets.ts";
import { clientInformers } from "./service/known-objects.ts";
import { serviceParts } from "./service/parts.ts";
import { RegistrySecrets } from "./service/registry-secrets.ts";
import { sandboxReader } from "./service/read-sandbox.ts";
import { statusOf } from "../base/http.ts";
import { isResumeProof, resumeProofHeader } from "../cell/client/resume-proof.ts";
import { uidOf } from "./service/find-sandbox.ts";

export interface RunClientApiOptions {
  client: KubeClient;
  /** 0 selects a free port. */
  port: number;
  address: string;
  /** The domain below which sandboxes have their host names. @default clients use their own setting */
  domain?: string | undefined;
  /** The origin of a gateway, through which the client API reaches sandboxes. @default the published address */
  gateway?: string | undefined;
  /** Names of templates of other systems, and what they mean here. */
  templateAliases?: ReadonlyMap<string, string>;
  /** The longest life that a client can request at a time. @default 30 days */
  maxLifeSeconds?: number;
  /** The only namespaces whose sandboxes it knows. @default all */
  servedNamespaces?: readonly string[] | undefined;
  /** At shutdown, keeps accepting connections for this long, until load balancers have noticed. @default 0 */
  shutdownDelayMilliseconds?: number;
  metrics?: ClientApiMetrics;
  /** Learns when an informer has stopped. */
  liveness?: Liveness;
  log?: Log;
  /** Called when the server can answer requests. */
  onReady?: (port: number) => void;
  /** Called at the start of the shutdown, when the readiness probe must fail. */
  onEnding?: () => void;
  signal: AbortSignal;
}

const defaultMaxLifeSeconds = 30 * 86_400;

/**
 * Serves the APIs of clients until `signal` aborts. It keeps only caches, so any number of replicas can run.
 * @throws RametError `Unavailable` when the port cannot be opened
 */
export async function runClientApi(options: RunClientApiOptions): Promise<void> {
  const { client, port, address, domain, metrics = clientApiMetrics(), log = silentLog, signal } = options;
  const watching = { log, namespaces: options.servedNamespaces };
  const informers = clientInformers(client, watching);
  const callers = new Callers(client, watching);
  const following = new AbortController();
  const { sandboxes, checkpoints, templates, sets, snapshots } = informers;
  const all = [sandboxes, checkpoints, templates, sets, snapshots, callers.informer];
  const followed = all.map((informer) => informer.run(following.signal, options.liveness));
  const service = serviceParts(client, informers, options.templateAliases ?? new Map());
  try {
    await Promise.all(all.map((informer) => informer.synced(signal)));
    const guestSecret = guestSecretReader(client);
    const maxLifeSeconds = options.maxLifeSeconds ?? defaultMaxLifeSeconds;
    const guests = { client, guestSecret, gateway: options.gateway };
    const shared = {
      service,
      callers,
      rates: new RequestRates(client.clock),
      guestSecret,
      guestOf: guestAccess(guests),
      maxLifeSeconds,
    };
    const agentTier = agentTierDialect({ ...shared, requestPort: portRequester(guests) });
    const e2b = e2bDialect({
      ...shared,
      readSandbox: sandboxReader(guests),
      secrets: new ClientSecrets(client),
      registrySecrets: new RegistrySecrets(client, guestSecret),
      domain,
      envdVersion,
    });
    const autoResumes = new AutoResumes(service, maxLifeSeconds);
    const forGateways = gatewayRoutes({ autoResumes, guestSecret, clock: client.clock });
    const { clock } = client;
    const server = await serveClientApi({
      port,
      address,
      dialects: [e2b, agentTier, forGateways],
      metrics,
      clock,
      log,
    });
    options.onReady?.(server.port);
    await untilAborted(signal);
    options.onEnding?.();
    await delay(client.clock, options.shutdownDelayMilliseconds ?? 0);
    await server.close();
  } catch (error) {
    if (!signal.aborted) throw error;
  } finally {
    service.close();
    following.abort();
    await Promise.all(followed);
  }
}

/** Reads the secret of the guests' tokens when it is needed, and notices a changed one after a few seconds. */
export function guestSecretReader(client: KubeClient): () => Promise<Buffer> {
  const secrets = client.resource(coreResources.secrets, (value) => GuestKeySecret.parse(value));
  const caching = { clock: client.clock, freshMilliseconds: 10_000, staleMilliseconds: 300_000 };
  const cache = new StaleOnErrorCache<Buffer>({ ...caching, isRefusal: () => false });
  const read = async (): Promise<Buffer> => {
    try {
      const { data } = await secrets.get({ namespace: systemNamespace, name: guestKeySecret });
      return Buffer.from(data[guestSecretEntry], "base64");
    } catch (cause) {
      throw new RametError("Unavailable", "The secret from which access tokens are derived cannot be read", {
        retryable: true,
        hint: `Check that the controllers have created the Secret ${guestKeySecret} in ${systemNamespace}, and that the client API may get it`,
        cause,
      });
    }
  };
  return () => cache.get("", read);
}

const GuestKeySecret = z.looseObject({
  metadata: ObjectMeta,
  data: z.looseObject({ [guestSecretEntry]: z.string().min(1) }),
});

interface GatewayRoutesOptions {
  autoResumes: AutoResumes;
  /** Reads the secret of the guests' tokens. */
  guestSecret: () => Promise<Buffer>;
  clock: Clock;
}

/** The route by which gateways resume a sandbox for which traffic has arrived. Clients cannot use it. */
function gatewayRoutes({ autoResumes, guestSecret, clock }: GatewayRoutesOptions): Dialect {
  return {
    register: (server) => {
      server.post("/internal/sandboxes/:uid/resume", async (request, reply) => {
        const { uid: given = "" } = request.params as { uid?: string };
        const uid = uidOf(given);
        const proof = [request.headers[resumeProofHeader]].flat()[0] ?? "";
        try {
          if (uid === undefined || !isResumeProof(proof, await guestSecret(), uid, clock)) throw notProven();
          return await reply.send({ resumed: await autoResumes.resume(uid) });
        } catch (error) {
          const { code, message, hint, retryable } = RametError.from(error);
          const status = statusOf(code);
          if (status >= 500) request.log.error({ id: request.id, err: error }, "a sandbox was not resumed for traffic");
          return reply.code(status).send({ code: status, reason: code, message, hint, retryable });
        }
      });
    },
  };
}

function notProven(): RametError {
  return new RametError("Unauthorized", "Only gateways can send this request");
}
