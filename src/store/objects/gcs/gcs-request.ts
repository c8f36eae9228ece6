import type { GoogleAuth } from "google-auth-library";
import { gcsFailure } from "./gcs-refusal.ts";

export interface GcsRequest {
  method: "GET" | "PUT" | "DELETE" | "POST";
  url: URL;
  headers?: Record<string, string>;
  /** The body: bytes, or what is written as JSON. */
  data?: Uint8Array | Record<string, unknown>;
  /** As what the answer's body is given. @default text */
  responseType?: "json" | "arraybuffer";
  signal?: AbortSignal | undefined;
}

export interface GcsAnswer {
  /** 200 to 299, or 416: an object has no such part. */
  status: number;
  data: unknown;
}

/**
 * A request to one of Google's APIs with the controllers' own credentials. What passes is tried again, some seconds long.
 * @throws GcsRefusal; the signal's reason; what the library says where there are no credentials
 */
export async function gcsRequest(auth: GoogleAuth, { signal, ...request }: GcsRequest): Promise<GcsAnswer> {
  try {
    return await auth.request<unknown>({
      responseType: "text",
      ...request,
      retry: true,
      retryConfig: { httpMethodsToRetry: [request.method] },
      validateStatus: isAnswer,
      ...(signal && { signal }),
    });
  } catch (error) {
    signal?.throwIfAborted();
    throw gcsFailure(error, request.url);
  }
}

function isAnswer(status: number): boolean {
  return (status >= 200 && status < 300) || status === 416;
}
