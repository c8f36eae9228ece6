import { get, type IncomingMessage } from "node:http";
import { text } from "node:stream/consumers";

/** What a URL of a local cluster's gateway answers. Node resolves names below localhost only where the system does. */
export async function answerOf(url: string, signal?: AbortSignal): Promise<string> {
  const { host, port } = new URL(url);
  const response = await new Promise<IncomingMessage>((resolve, reject) => {
    get({ host: "127.0.0.1", port, headers: { host }, timeout: 20_000, signal }, resolve).on("error", reject);
  });
  return text(response);
}
