import { connect } from "node:net";
import { Agent, request } from "undici";
import type { Container } from "../../api/schema/pod-template.ts";
import type { ProbeSpec } from "./probe-spec.ts";

/** Where a Pod's probes knock. */
export interface ProbeTarget {
  ip: string;
  container: Container;
}

/** Knocks once: resolves with what is wrong, or with nothing if all is well. `signal` ends a knock that takes too long. */
export type Knock = (spec: ProbeSpec, target: ProbeTarget, signal: AbortSignal) => Promise<string | undefined>;

/** As a kubelet does it, but that a redirect counts as an answer and is not followed. */
export const knock: Knock = async (spec, target, signal) => {
  try {
    if (spec.httpGet !== undefined) return await knockHttp(spec, target, signal);
    await knockTcp(spec, target, signal);
    return undefined;
  } catch (error) {
    if (signal.aborted) return "no answer in time";
    return error instanceof Error ? error.message || error.name : String(error);
  }
};

async function knockHttp(
  { httpGet }: ProbeSpec,
  target: ProbeTarget,
  signal: AbortSignal,
): Promise<string | undefined> {
  const { path = "/", scheme = "HTTP", port = 0, httpHeaders = [] } = httpGet ?? {};
  const url = new URL(`${scheme.toLowerCase()}://${target.ip}:${portNumber(port, target.container)}`);
  const slashed = path.startsWith("/") ? path : `/${path}`;
  // A kubelet does not look at certificates either: it is the Pod that it asks, not a name.
  const dispatcher = new Agent({ connect: { rejectUnauthorized: false }, pipelining: 0 });
  try {
    const headers = Object.fromEntries(httpHeaders.map(({ name, value }) => [name.toLowerCase(), value]));
    const answer = await request(new URL(slashed, url), {
      dispatcher,
      signal,
      headers: { "user-agent": "kube-probe/1.36", accept: "*/*", ...headers },
    });
    answer.body.on("error", () => undefined).destroy();
    const { statusCode } = answer;
    return statusCode >= 200 && statusCode < 400 ? undefined : `HTTP status ${statusCode}`;
  } finally {
    await dispatcher.destroy();
  }
}

function knockTcp({ tcpSocket }: ProbeSpec, target: ProbeTarget, signal: AbortSignal): Promise<void> {
  const port = portNumber(tcpSocket?.port ?? 0, target.container);
  return new Promise((resolve, reject) => {
    const socket = connect({ host: target.ip, port });
    const stop = (): void => {
      socket.destroy(new Error("no answer in time"));
    };
    signal.addEventListener("abort", stop, { once: true });
    socket.once("connect", () => {
      socket.destroy();
      resolve();
    });
    socket.once("error", reject);
    socket.once("close", () => {
      signal.removeEventListener("abort", stop);
    });
  });
}

function portNumber(port: number | string, { ports }: Container): number {
  if (typeof port === "number") return port;
  const named = ports?.find(({ name }) => name === port)?.containerPort;
  if (named === undefined) throw new Error(`the container has no port called ${port}`);
  return named;
}
