import * as z from "zod";
import { within } from "../base/within.ts";
import type { KubeClient } from "./kube-client.ts";
import { apiVersionOf, coreResources, type ResourceRef } from "./resource-ref.ts";

/** A right of a user, in the words of RBAC. */
export interface ResourceAttributes {
  namespace?: string;
  name?: string;
  group: string;
  resource: string;
  subresource?: string;
  verb: string;
}

/** Asks the API server whether RBAC allows a user something. @throws RametError as `askForReview` */
export async function isAllowed(
  client: KubeClient,
  user: { user: string; uid?: string | undefined; groups?: readonly string[] | undefined; extra?: object | undefined },
  resourceAttributes: ResourceAttributes,
): Promise<boolean> {
  const answer = await askForReview(client, coreResources.subjectAccessReviews, { ...user, resourceAttributes });
  return AccessReview.parse(answer).status.allowed;
}

const AccessReview = z.object({ status: z.object({ allowed: z.boolean() }) });

const limitMilliseconds = 3_000;

/** Asks the API server for a review. @throws RametError `Timeout` (retryable); that of the request */
export function askForReview(client: KubeClient, resource: ResourceRef, spec: object): Promise<unknown> {
  const { kind } = resource;
  const body = { apiVersion: apiVersionOf(resource), kind, spec };
  const deadline = { clock: client.clock, milliseconds: limitMilliseconds, what: `The ${kind}`, retryable: true };
  return within(deadline, (signal) =>
    // A review changes nothing, so the client may send it again.
    client.request({ verb: "create", resource, at: {}, body, repeatable: true, signal }),
  );
}
