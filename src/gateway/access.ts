import { createHash } from "node:crypto";
import * as z from "zod";
import { RametError } from "../base/errors.ts";
import { Slots, takeAll } from "../base/slots.ts";
import { group } from "../api/schema/kind.ts";
import { gatewayAudience } from "../api/names/system-names.ts";
import type { KubeClient } from "../kube/kube-client.ts";
import { askForReview, isAllowed } from "../kube/access-review.ts";
import { coreResources } from "../kube/resource-ref.ts";
import type { ClientOrigin } from "./client-origin.ts";
import type { GatewayMetrics } from "./metrics.ts";
import { StaleOnErrorCache } from "../base/stale-on-error-cache.ts";
import { expiryOf, tokenHint, type TokenVerifier } from "./token-verifier.ts";

interface Place {
  namespace: string;
  name: string;
}

/** A right of a client to a sandbox. RBAC grants it as the verb `create` on this subresource of `sandboxes`. */
export type SandboxRight =
  /** Connect to ports. */
  | "proxy"
  /** Run commands and transfer files with the access token of the guest, which the gateway adds. */
  | "exec";

export interface AccessQuestion {
  token: string | undefined;
  /** The sandboxes. If empty, a valid token is enough. */
  places: readonly Place[];
  /** In the order in which they are checked. */
  rights: readonly [SandboxRight, ...SandboxRight[]];
}

/** Authorizes clients for sandboxes. */
export interface Access {
  /**
   * Resolves when the token is valid for gateways and its user has one of the rights for all of these sandboxes.
   * @returns the first right that the user has
   * @throws RametError `Unauthorized`, `Forbidden`; `Unavailable` while the API server does not respond
   */
  check(question: AccessQuestion, client: Pick<ClientOrigin, "address">): Promise<SandboxRight>;
}

export interface AccessOptions {
  client: KubeClient;
  /** Verifies tokens before the API server is asked. @default the API server is asked about every token */
  tokens?: TokenVerifier | undefined;
  metrics: GatewayMetrics;
}

/** A revoked permission stays effective for this long. */
const freshMilliseconds = 10_000;
/** The same while the API server does not respond. An upgrade of the API server takes less time. */
const staleMilliseconds = 300_000;

/** Authenticates clients by TokenReview and authorizes them by SubjectAccessReview, so RBAC decides. */
export function apiServerAccess({ client, tokens, metrics }: AccessOptions): Access {
  const options = { clock: client.clock, freshMilliseconds, staleMilliseconds };
  const callers = new StaleOnErrorCache<Authenticated | undefined>({
    ...options,
    isRefusal: (caller) => caller === undefined,
  });
  const decisions = new StaleOnErrorCache<boolean>({ ...options, isRefusal: (isAllowed) => !isAllowed });
  const slots = { all: new Slots(reviewsAtATime), client: new Slots(reviewsOfOneClient) };
  /** Runs a review, unless too many of them wait for the API server. */
  const reviewing = async <T>(address: string, review: () => Promise<T>): Promise<T> => {
    const release = takeAll([slots.client, address], [slots.all, ""]);
    if (release === undefined) throw tooManyReviews(metrics);
    return review().finally(release);
  };
  return {
    async check({ token, places, rights }, { address }) {
      if (token === undefined) throw unauthorized("The request has no token");
      const authenticated = await callers.get(digestOf(token), async () => {
        await tokens?.verify(token).catch((error: unknown) => {
          if (RametError.from(error).code === "Unauthorized") metrics.refused("token");
          throw error;
        });
        const caller = await reviewing(address, () => authenticate(client, token));
        return caller && { caller, expiresAt: expiryOf(token) };
      });
      if (authenticated === undefined) throw unauthorized("The API server does not accept the token for gateways");
      const { caller, expiresAt } = authenticated;
      if (expiresAt <= client.clock.now().getTime()) throw unauthorized("The token has expired");
      const isGranted = async (right: SandboxRight): Promise<boolean> => {
        for (const at of places) {
          const key = JSON.stringify([caller, right, at.namespace, at.name]);
          const decide = () => reviewing(address, () => isGrantedBy(client, caller, right, at));
          if (!(await decisions.get(key, decide))) return false;
        }
        return true;
      };
      for (const right of rights) if (await isGranted(right)) return right;
      throw forbidden(caller, rights, places);
    },
  };
}

interface Authenticated {
  caller: Caller;
  /** Milliseconds since 1970. */
  expiresAt: number;
}

/** More than the client has connections, so that a burst waits for a moment instead of failing. */
const reviewsAtATime = 256;
/** Generous, because a load balancer can be the client. */
const reviewsOfOneClient = 64;

function tooManyReviews(metrics: GatewayMetrics): RametError {
  metrics.refused("reviews");
  return new RametError("Unavailable", "The gateway checks the access of too many requests", { retryable: true });
}

function unauthorized(why: string): RametError {
  return new RametError("Unauthorized", why, { hint: tokenHint });
}

function forbidden({ username }: Caller, rights: AccessQuestion["rights"], [at]: readonly Place[]): RametError {
  const what = rights.includes("exec") ? "enter" : "connect to";
  const where = at === undefined ? "the sandbox" : `the sandbox ${at.name} in ${at.namespace}`;
  return new RametError("Forbidden", `${username} is not allowed to ${what} ${where}`, {
    hint: `Grant the verb create on sandboxes/${rights[0]} in the API group ${group} by a Role in that namespace`,
  });
}

/** The cache key of a token. The gateway does not keep the token. */
function digestOf(token: string): string {
  return createHash("sha256").update(token).digest("base64url");
}

async function authenticate(client: KubeClient, token: string): Promise<Caller | undefined> {
  const spec = { token, audiences: [gatewayAudience] };
  const answer = await askForReview(client, coreResources.tokenReviews, spec).catch(reviewFailed);
  const { status } = TokenReview.parse(answer);
  // An API server without support for audiences ignores them and accepts a token for the API server.
  return status.authenticated && status.audiences.includes(gatewayAudience) ? Caller.parse(status.user) : undefined;
}

function isGrantedBy(
  client: KubeClient,
  { username, ...caller }: Caller,
  subresource: SandboxRight,
  { namespace, name }: Place,
): Promise<boolean> {
  const attributes = { namespace, name, group, resource: "sandboxes", subresource, verb: "create" };
  return isAllowed(client, { user: username, ...caller }, attributes).catch(reviewFailed);
}

/** The client must not see the API server's errors about the gateway's own rights. */
function reviewFailed(error: unknown): never {
  const cause = RametError.from(error);
  if (!cause.retryable) {
    throw new RametError("Internal", `The gateway cannot check access to the sandbox: ${cause.message}`, { cause });
  }
  throw new RametError("Unavailable", `The API server did not review access to the sandbox: ${cause.message}`, {
    cause,
    retryable: true,
  });
}

const Caller = z.object({
  username: z.string(),
  uid: z.string().optional(),
  groups: z.array(z.string()).optional(),
  extra: z.record(z.string(), z.array(z.string())).optional(),
});
type Caller = z.infer<typeof Caller>;

const TokenReview = z.object({
  status: z.object({
    authenticated: z.boolean().default(false),
    audiences: z.array(z.string()).default([]),
    user: z.unknown(),
  }),
});
