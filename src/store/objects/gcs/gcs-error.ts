import type { CloudErrors } from "../client-calls.ts";
import { GoogleRefusal } from "./gcs-refusal.ts";
import { kindOfRefusal } from "../refusal.ts";

/** How Cloud Storage at an endpoint fails. */
export function gcsErrors(store: string, endpoint: string): CloudErrors {
  const { origin } = new URL(endpoint);
  return {
    refusalOf: (error) =>
      error instanceof GoogleRefusal && error.origin === origin ? error.refusal : { cause: error },
    // Where another has refused, it was about who the controllers are.
    hasNoCredentials: (error) =>
      !(error instanceof GoogleRefusal) || (error.origin !== origin && kindOfRefusal(error.refusal) !== "passing"),
    identityHint:
      "Give the controllers a Google service account by workload identity, or name a key or a federation in GOOGLE_APPLICATION_CREDENTIALS.",
    rightsHint: `Give the controllers' service account roles/storage.objectUser on the bucket of ${store}.`,
  };
}
