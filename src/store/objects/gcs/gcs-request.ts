import type { GoogleAuth } from "google-auth-library";
import { gcsFailure } from "./gcs-refusal.ts";

export interface GcsRequest {
  method: "GET" | "PUT" | "DELETE" | "POST";
  url: URL;
  headers?: Record<string, string>;
  /** The body: bytes, or an object that is sent as JSON. */
  data?: Uint8Array | Record<string, unknown>;
  /** The type of the response body. @default text */
  responseType?: "json" | "arraybuffer";
  signal?: AbortSignal | undefined;
}

export interface GcsResponse {
  /** 200 to 299, or 416 if the range does not exist. */
  status: number;
  data: unknown;
}

/**
 * Sends a request to a Google API with the controllers' credentials. Retries transient errors for some seconds.
 * @throws GcsRefusal; the reason of `signal` when it aborts; the library's error if there are no credentials
 */
export async function gcsRequest(auth: GoogleAuth, { signal, ...request }: GcsRequest): Promise<GcsResponse> {
  try {
    return await auth.request<unknown>({
      responseType: "text",
      ...request,
      retry: true,
      retryConfig: { httpMethodsToRetry: [request.method] },
      validateStatus: isExpected,
      ...(signal && { signal }),
    });
  } catch (error) {
    signal?.throwIfAborted();
    throw gcsFailure(error, request.url);
  }
}

function isExpected(status: number): boolean {
  return (status >= 200 && status < 300) || status === 416;
}
