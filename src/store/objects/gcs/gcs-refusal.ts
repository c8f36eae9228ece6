// Text of Google's servers is parsed only here: the error responses of Cloud Storage, of IAM and of the token servers.
import { gaxios, type GoogleAuth } from "google-auth-library";
import { defined } from "../../../base/defined.ts";
import { describeRefusal, type Refusal } from "../refusal.ts";

/** An error response of Google, or the failure to get one. The message contains neither tokens nor signatures. */
export class GcsRefusal extends Error {
  readonly refusal: Refusal;
  /** The server that refused: the requested one, or a server that issues its tokens. */
  readonly origin: string;

  constructor({ config: { url }, response, message }: gaxios.GaxiosError, requested?: URL) {
    const text = textOf(response?.data);
    const refusal =
      response === undefined ? { cause: message } : { status: response.status, word: firstOf(wordPatterns, text) };
    const reason = firstOf(reasonPatterns, text) ?? "it gave no reason";
    super(url.origin === requested?.origin ? reason : `${describeRefusal(refusal, url.host)}: ${reason}`);
    this.refusal = refusal;
    this.origin = url.origin;
  }
}

/**
 * Converts an error of the library to a GcsRefusal if it is an error response.
 * @param requested the URL of the caller's request, if there was one besides the library's own requests
 */
export function gcsFailure(error: unknown, requested?: URL): unknown {
  return error instanceof gaxios.GaxiosError ? new GcsRefusal(error, requested) : error;
}

/** The formats of the XML API, the JSON API and the token servers. */
const wordPatterns = [/<Code>(\w{1,64})<\/Code>/, /"(?:reason|status|error)":\s*"(\w{1,64})"/];
const reasonPatterns = [
  /<Details>([^<]{1,300})/,
  /<Message>([^<]{1,300})/,
  /"(?:message|error_description)":\s*"([^"]{1,300})"/,
];

function firstOf(patterns: readonly RegExp[], text: string): string | undefined {
  return patterns.map((pattern) => pattern.exec(text)?.[1]).find((match) => match !== undefined);
}

function textOf(data: unknown): string {
  if (typeof data === "string") return data;
  return data instanceof ArrayBuffer ? Buffer.from(data).toString("utf8") : JSON.stringify(data ?? "");
}

interface GcsRequest {
  method: "GET" | "PUT" | "DELETE" | "POST";
  url: URL;
  headers?: Record<string, string>;
  /** The body: bytes, or an object that is sent as JSON. */
  data?: Uint8Array | Record<string, unknown>;
  /** The type of the response body. @default text */
  responseType?: "json" | "arraybuffer";
  signal?: AbortSignal | undefined;
}

interface GcsResponse {
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
      ...defined({ signal }),
    });
  } catch (error) {
    signal?.throwIfAborted();
    throw gcsFailure(error, request.url);
  }
}

function isExpected(status: number): boolean {
  return (status >= 200 && status < 300) || status === 416;
}
