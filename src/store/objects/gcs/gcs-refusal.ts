import { gaxios } from "google-auth-library";
import { sayRefusal, type Refusal } from "../refusal.ts";

/** What Google has answered, other than that it is done; or that it did not answer. Its message says why: no token, and nothing signed. */
export class GcsRefusal extends Error {
  readonly refusal: Refusal;
  /** Of who has refused: the one that was asked, or another that should have told it who asks. */
  readonly origin: string;

  constructor({ config: { url }, response, message }: gaxios.GaxiosError, asked?: URL) {
    const text = textOf(response?.data);
    const refusal =
      response === undefined ? { cause: message } : { status: response.status, word: firstOf(wordPatterns, text) };
    const reason = firstOf(reasonPatterns, text) ?? "it does not say why";
    super(url.origin === asked?.origin ? reason : `${sayRefusal(refusal, url.host)}: ${reason}`);
    this.refusal = refusal;
    this.origin = url.origin;
  }
}

/**
 * What the library has failed with, which may be that Google has refused; `asked` is what the request was for, if there was one beside those
 * of the library itself.
 */
export function gcsFailure(error: unknown, asked?: URL): unknown {
  return error instanceof gaxios.GaxiosError ? new GcsRefusal(error, asked) : error;
}

/** Of the XML API; of the JSON API and others; of who exchanges tokens. */
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
