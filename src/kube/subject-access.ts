import * as z from "zod";
import { within } from "../base/within.ts";
import type { KubeClient } from "./kube-client.ts";
import { coreResources } from "./resource-ref.ts";

/** A user, as the API server names them. */
export interface KubeUser {
  user: string;
  uid?: string | undefined;
  groups?: readonly string[] | undefined;
  extra?: Readonly<Record<string, readonly string[]>> | undefined;
}

/** A right of a user, in the words of RBAC. */
export interface ResourceAttributes {
  namespace?: string;
  name?: string;
  group: string;
  resource: string;
  subresource?: string;
  verb: string;
}

/** Asks the API server whether RBAC allows a user something. @throws RametError `Timeout` (retryable); that of the request */
export async function isAllowed(client: KubeClient, user: KubeUser, attributes: ResourceAttributes): Promise<boolean> {
  const spec = { ...user, resourceAttributes: attributes };
  const { kind, group, version } = coreResources.subjectAccessReviews;
  const body = { apiVersion: `${group}/${version}`, kind, spec };
  const deadline = { clock: client.clock, milliseconds: limitMilliseconds, what: `The ${kind}`, retryable: true };
  const resource = coreResources.subjectAccessReviews;
  const answer = await within(deadline, (signal) =>
    // A review changes nothing, so the client may send it again.
    client.request({ verb: "create", resource, at: {}, body, repeatable: true, signal }),
  );
  return AccessReview.parse(answer).status.allowed;
}

const limitMilliseconds = 3_000;

const AccessReview = z.object({ status: z.object({ allowed: z.boolean() }) });
