import type { GoogleAuth } from "google-auth-library";
import { googleFailure } from "./gcs-refusal.ts";

export interface GoogleRequest {
  method: "GET" | "PUT" | "DELETE" | "POST";
  url: URL;
  headers?: Record<string, string>;
  /** The body: bytes, or what is written as JSON. */
  data?: Uint8Array | Record<string, unknown>;
  /** As what the answer's body is given. @default text */
  responseType?: "json" | "arraybuffer";
  signal?: AbortSignal | undefined;
}

export interface GoogleAnswer {
  /** 200 to 299, or 416: an object has no such part. */
  status: number;
  data: unknown;
}

/**
 * A request to one of Google's APIs with the controllers' own credentials. What passes is tried again, some seconds long.
 * @throws GoogleRefusal; the signal's reason; what the library says where there are no credentials
 */
export async function googleRequest(auth: GoogleAuth, { signal, ...request }: GoogleRequest): Promise<GoogleAnswer> {
  try {
    return await auth.request<unknown>({
      ...{ responseType: "text", ...request },
      ...{ retry: true, retryConfig: { httpMethodsToRetry: [request.method] }, validateStatus: isAnswer },
      ...(signal && { signal }),
    });
  } catch (error) {
    signal?.throwIfAborted();
    throw googleFailure(error, request.url);
  }
}

function isAnswer(status: number): boolean {
  return (status >= 200 && status < 300) || status === 416;
}
