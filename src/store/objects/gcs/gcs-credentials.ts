import { GoogleAuth } from "google-auth-library";

/** The longest that one call may take. None brings more than a part of an object. */
const callMilliseconds = 30_000;

/**
 * Who the controllers are to Google: what Google's own tools would find (Application Default Credentials), which is a key or a
 * federation that `GOOGLE_APPLICATION_CREDENTIALS` names, gcloud's, the workload identity of GKE, or the node.
 */
export function googleCredentials(): GoogleAuth {
  const auth = new GoogleAuth({
    scopes: ["https://www.googleapis.com/auth/cloud-platform"],
    clientOptions: { transporterOptions: { timeout: callMilliseconds } },
  });
  // Who has a key signs its tokens: nobody is asked for one.
  auth.useJWTAccessWithScope = true;
  return auth;
}
