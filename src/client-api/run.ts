import type { FastifyRequest } from "fastify";
import { type Clock, delay, untilAborted } from "../base/clock.ts";
import { defined } from "../base/defined.ts";
import { RametError } from "../base/errors.ts";
import { statusOf } from "../base/http.ts";
import { type Log, silentLog } from "../base/log.ts";
import { isResumeProof, resumeProofHeader } from "../cell/client/resume-proof.ts";
import type { KubeClient } from "../kube/kube-client.ts";
import type { Liveness } from "../kube/liveness.ts";
import { guestSecretReader } from "../kube/system-reader.ts";
import { agentTierDialect } from "./dialects/agenttier/routes.ts";
import { e2bDialect } from "./dialects/e2b/routes.ts";
import { nativeDialect } from "./dialects/native/routes.ts";
import { sandbox0Dialect } from "./dialects/sandbox0/routes.ts";
import { Callers } from "./keys/callers.ts";
import { type ClientApiMetrics, clientApiMetrics } from "./metrics.ts";
import { type Dialect, type ServerOptions, serveClientApi } from "./server.ts";
import { AutoResumes } from "./service/auto-resume.ts";
import { ClientSecrets } from "./service/client-secrets.ts";
import { uidOf } from "./service/find-sandbox.ts";
import { Guests } from "./service/guests.ts";
import { withService } from "./service/parts.ts";

export interface RunClientApiOptions extends Pick<ServerOptions, "port" | "address"> {
  client: KubeClient;
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

/**
 * Serves the APIs of clients until `signal` aborts. It keeps only caches, so any number of replicas can run.
 * @throws RametError `Unavailable` when the port cannot be opened
 */
export async function runClientApi(options: RunClientApiOptions): Promise<void> {
  const { client, metrics = clientApiMetrics(), log = silentLog, signal } = options;
  const { maxLifeSeconds = 30 * 86_400, shutdownDelayMilliseconds = 0, templateAliases, liveness } = options;
  const { clock } = client;
  const watching = { log, namespaces: options.servedNamespaces };
  const callers = new Callers(client, watching);
  const following = { others: [callers.informer], ...defined({ aliases: templateAliases, liveness }), signal };
  try {
    await withService({ client, ...watching, ...following }, async (service) => {
      const guests = new Guests(client, guestSecretReader(client, "the client API"), options.gateway);
      const shared = { service, callers, guests, maxLifeSeconds };
      const withSecrets = { ...shared, secrets: new ClientSecrets(client), domain: options.domain };
      const dialects = [
        e2bDialect(withSecrets),
        nativeDialect(withSecrets),
        agentTierDialect(shared),
        sandbox0Dialect(withSecrets),
        gatewayRoutes(new AutoResumes(service, maxLifeSeconds), guests, clock),
      ];
      const server = await serveClientApi({ ...options, dialects, metrics, clock, log });
      options.onReady?.(server.port);
      await untilAborted(signal);
      options.onEnding?.();
      await delay(clock, shutdownDelayMilliseconds);
      await server.close();
    });
  } catch (error) {
    if (!signal.aborted) throw error;
  }
}

/** The route by which gateways resume a sandbox for which traffic has arrived. Clients cannot use it. */
function gatewayRoutes(autoResumes: AutoResumes, { secret }: Guests, clock: Clock): Dialect {
  return {
    register: (server) => {
      server.setErrorHandler((error, request, reply) => {
        const { code, message, hint, retryable } = RametError.from(error);
        const status = statusOf(code);
        if (status >= 500) request.log.error({ id: request.id, err: error }, "a sandbox was not resumed for traffic");
        return reply.code(status).send({ code: status, reason: code, message, hint, retryable });
      });
      const uidIn = ({ params }: FastifyRequest) => uidOf((params as { uid: string }).uid) ?? "";
      const access = async (request: FastifyRequest): Promise<undefined> => {
        const proof = [request.headers[resumeProofHeader]].flat()[0] ?? "";
        if (!isResumeProof(proof, await secret(), uidIn(request), clock))
          throw new RametError("Unauthorized", "Only gateways can send this request");
      };
      server.post("/internal/sandboxes/:uid/resume", { config: { access } }, async (request, reply) =>
        reply.send({ resumed: await autoResumes.resume(uidIn(request)) }),
      );
    },
  };
}
