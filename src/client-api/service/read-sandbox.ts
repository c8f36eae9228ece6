import type { Sandbox } from "../../api/kinds/sandbox.ts";
import { RametError } from "../../base/errors.ts";
import { guestAccessToken } from "../../cell/client/cell-token.ts";
import { callGuest } from "../../cell/client/guest-http.ts";
import { gatewayDial, type GuestAccessOptions } from "./guest-access.ts";

/**
 * Returns the first bytes of what a sandbox answers to a GET request.
 * @throws RametError `Unavailable` if it does not answer with status 200; `Canceled`
 */
export type ReadSandbox = (sandbox: Sandbox, request: SandboxRequest) => Promise<string>;

export interface SandboxRequest {
  port: number;
  /** With the query. */
  path: string;
  /** More is not read. */
  limitBytes: number;
  signal: AbortSignal;
}

/** Reads through a gateway with the token of the guest, as clients do. */
export function sandboxReader({ guestSecret, ...gateway }: GuestAccessOptions): ReadSandbox {
  const { clock } = gateway.client;
  return async ({ metadata: { name, uid } }, { port, path, limitBytes, signal }) => {
    const headers = {
      "e2b-sandbox-id": uid,
      "e2b-sandbox-port": String(port),
      "x-access-token": guestAccessToken(await guestSecret(), uid),
      connection: "close",
    };
    const ending = new AbortController();
    const cancel = clock.schedule(answerMilliseconds, () => {
      ending.abort();
    });
    try {
      const call = { method: "GET" as const, path, headers, signal: AbortSignal.any([signal, ending.signal]) };
      const response = await callGuest(await gatewayDial(gateway), call, clock);
      const text = await firstBytes(response, limitBytes);
      if (response.statusCode === 200) return text;
      throw new RametError("Unavailable", `it answers with status ${response.statusCode ?? 0}`);
    } catch (cause) {
      const why = ending.signal.aborted ? "it takes too long" : RametError.from(cause).message;
      const message = `The sandbox ${name} does not answer: ${why}`;
      throw new RametError(signal.aborted ? "Canceled" : "Unavailable", message, { retryable: true, cause });
    } finally {
      cancel();
    }
  };
}

/** For the whole answer: a sandbox that sends slowly must not occupy the server. */
const answerMilliseconds = 15_000;

/** Leaving the loop closes the connection if there is more. */
async function firstBytes(body: AsyncIterable<unknown>, limitBytes: number): Promise<string> {
  const chunks: Buffer[] = [];
  let size = 0;
  for await (const chunk of body as AsyncIterable<Buffer>) {
    chunks.push(chunk.subarray(0, limitBytes - size));
    size += chunk.length;
    if (size >= limitBytes) break;
  }
  return Buffer.concat(chunks).toString("utf8");
}
