import { createHash } from "node:crypto";
import * as z from "zod";
import { RametError } from "../base/errors.ts";
import { group } from "../api/schema/kind.ts";
import { gatewayAudience } from "../api/names/system-names.ts";
import type { KubeClient } from "../kube/kube-client.ts";
import { coreResources, type ResourceRef } from "../kube/resource-ref.ts";
import { within } from "../base/within.ts";
import { StaleOnErrorCache } from "./stale-on-error-cache.ts";

interface Place {
  namespace: string;
  name: string;
}

/** Who may reach which sandbox. */
export interface Access {
  /**
   * Passes if the API server knows the token as one for gateways, and lets its owner reach the sandboxes at all these places.
   * @param places none: it is enough that the token is known
   * @throws RametError `Unauthorized`, `Forbidden`; `Unavailable` while the API server does not answer
   */
  check(token: string | undefined, places: readonly Place[]): Promise<void>;
}

/** For so long somebody keeps a right that was taken away. */
const freshMilliseconds = 10_000;
/** And for so long while the API server does not answer: it is updated in less. */
const staleMilliseconds = 300_000;

/** Asks the API server who somebody is (TokenReview) and whether they may (SubjectAccessReview), so that RBAC decides. */
export function apiServerAccess(client: KubeClient): Access {
  const options = { clock: client.clock, freshMilliseconds, staleMilliseconds };
  const callers = new StaleOnErrorCache<Caller | undefined>(options);
  const verdicts = new StaleOnErrorCache<boolean>(options);
  return {
    async check(token, places) {
      if (token === undefined) throw unauthorized("The request carries no token");
      const caller = await callers.get(digestOf(token), () => whoIs(client, token));
      if (caller === undefined) throw unauthorized("The token is not known to the API server as one for gateways");
      for (const at of places) {
        const key = JSON.stringify([caller, at.namespace, at.name]);
        if (!(await verdicts.get(key, () => mayReach(client, caller, at)))) throw forbidden(caller, at);
      }
    },
  };
}

const subresource = "proxy";

function unauthorized(why: string): RametError {
  return new RametError("Unauthorized", why, {
    hint: `Send Ramet-Access-Token with what \`kubectl create token <service account> --audience ${gatewayAudience}\` prints`,
  });
}

function forbidden({ username }: Caller, { namespace, name }: Place): RametError {
  return new RametError("Forbidden", `${username} may not reach the sandbox ${name} in ${namespace}`, {
    hint: `Whoever may create sandboxes/${subresource} in ${group} there may: give a Role with that verb and resource`,
  });
}

/** The token itself is kept nowhere. */
function digestOf(token: string): string {
  return createHash("sha256").update(token).digest("base64url");
}

async function whoIs(client: KubeClient, token: string): Promise<Caller | undefined> {
  const spec = { token, audiences: [gatewayAudience] };
  const { status } = TokenReview.parse(await review(client, coreResources.tokenReviews, spec));
  // An API server that knows nothing of audiences has taken it for one of its own.
  return status.authenticated && status.audiences.includes(gatewayAudience) ? Caller.parse(status.user) : undefined;
}

async function mayReach(client: KubeClient, { username, uid, groups, extra }: Caller, at: Place): Promise<boolean> {
  const resourceAttributes = { ...at, group, resource: "sandboxes", subresource, verb: "create" };
  const spec = { user: username, uid, groups, extra, resourceAttributes };
  return AccessReview.parse(await review(client, coreResources.subjectAccessReviews, spec)).status.allowed;
}

/** Nobody waits longer to be let in. */
const reviewMilliseconds = 3_000;

async function review(client: KubeClient, resource: ResourceRef, spec: object): Promise<unknown> {
  const body = { apiVersion: `${resource.group}/${resource.version}`, kind: resource.kind, spec };
  const deadline = { clock: client.clock, milliseconds: reviewMilliseconds, what: `The ${resource.kind}` };
  try {
    return await within(deadline, (signal) =>
      // A review changes nothing, so the client may send it again.
      client.request({ verb: "create", resource, at: {}, body, repeatable: true, signal }),
    );
  } catch (error) {
    throw reviewFailure(RametError.from(error));
  }
}

/** The client must not see the API server's errors about the gateway's own rights. */
function reviewFailure(cause: RametError): RametError {
  if (cause.code !== "Timeout" && !cause.retryable) {
    return new RametError("Internal", `The gateway cannot check access to the sandbox: ${cause.message}`, { cause });
  }
  return new RametError("Unavailable", `The API server did not review access to the sandbox: ${cause.message}`, {
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
const AccessReview = z.object({ status: z.object({ allowed: z.boolean() }) });
