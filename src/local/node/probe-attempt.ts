import { connect } from "node:net";
import { Agent, request } from "undici";
import * as z from "zod";
import type { Container, Handler } from "../../api/schema/pod-template.ts";

/** Where a Pod's probes knock. */
export interface ProbeTarget {
  ip: string;
  container: Container;
}

/** Knocks once: resolves with what is wrong, or with nothing if all is well. `signal` ends a knock that takes too long. */
export type ProbeAttempt = (spec: ProbeSpec, target: ProbeTarget, signal: AbortSignal) => Promise<string | undefined>;

/** As a kubelet does it, but that a redirect counts as an answer and is not followed. */
export const knock: ProbeAttempt = async (spec, target, signal) => {
  try {
    if (spec.httpGet !== undefined) return await probeHttp(spec, target, signal);
    await probeTcp(spec, target, signal);
    return undefined;
  } catch (error) {
    if (signal.aborted) return "no answer in time";
    return error instanceof Error ? error.message || error.name : String(error);
  }
};

async function probeHttp(
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

function probeTcp({ tcpSocket }: ProbeSpec, target: ProbeTarget, signal: AbortSignal): Promise<void> {
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

const Port = z.union([z.int(), z.string()]);

/** A probe of a container, as the API server has checked it; the defaults are Kubernetes'. */
export const ProbeSpec = z.looseObject({
  httpGet: z
    .looseObject({
      path: z.string().optional(),
      port: Port,
      scheme: z.enum(["HTTP", "HTTPS"]).optional(),
      httpHeaders: z.array(z.object({ name: z.string(), value: z.string() })).optional(),
    })
    .optional(),
  tcpSocket: z.looseObject({ port: Port }).optional(),
  initialDelaySeconds: z.int().default(0),
  periodSeconds: z.int().default(10),
  timeoutSeconds: z.int().default(1),
  successThreshold: z.int().default(1),
  failureThreshold: z.int().default(3),
  terminationGracePeriodSeconds: z.int().optional(),
});
export type ProbeSpec = z.infer<typeof ProbeSpec>;

/** What of a probe's way of asking the local node does not do, in words that go after "the local node". */
export function unsupportedProbe(handler: Handler): { field: string; why: string } | undefined {
  if (handler.exec !== undefined)
    return { field: "exec", why: "runs no commands for probes: use httpGet or tcpSocket" };
  if (handler.grpc !== undefined) return { field: "grpc", why: "speaks no gRPC: use httpGet or tcpSocket" };
  for (const field of ["httpGet", "tcpSocket"] as const) {
    if (handler[field]?.["host"] !== undefined)
      return { field: `${field}.host`, why: "asks the Pod's own address only: leave host out" };
  }
  return undefined;
}
