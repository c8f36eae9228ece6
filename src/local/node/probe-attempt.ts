import { connect } from "node:net";
import { Agent, request } from "undici";
import * as z from "zod";
import type { Container, Handler } from "../../api/schema/pod-template.ts";

/** The address and container of a Pod's probes. */
export interface ProbeTarget {
  ip: string;
  container: Container;
}

/** Probes once. Resolves with the problem, or undefined on success. `signal` aborts a probe that takes too long. */
export type ProbeAttempt = (spec: ProbeSpec, target: ProbeTarget, signal: AbortSignal) => Promise<string | undefined>;

/** Probes as a kubelet does, except that a redirect counts as success and is not followed. */
export const attemptProbe: ProbeAttempt = async (spec, target, signal) => {
  try {
    if (spec.httpGet !== undefined) return await probeHttp(spec, target, signal);
    await probeTcp(spec, target, signal);
    return undefined;
  } catch (error) {
    if (signal.aborted) return "no response in time";
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
  // A kubelet does not verify certificates either: it connects to the Pod's address, not to a name.
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
      socket.destroy(new Error("no response in time"));
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
  if (named === undefined) throw new Error(`the container has no port named ${port}`);
  return named;
}

const Port = z.union([z.int(), z.string()]);

/** A probe of a container, already validated by the API server. The defaults are Kubernetes'. */
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

/** The field of a probe's handler that the local node does not support. `why` continues "the local node". */
export function unsupportedProbe(handler: Handler): { field: string; why: string } | undefined {
  if (handler.exec !== undefined)
    return { field: "exec", why: "does not run commands as probes: use httpGet or tcpSocket" };
  if (handler.grpc !== undefined) return { field: "grpc", why: "does not support gRPC: use httpGet or tcpSocket" };
  for (const field of ["httpGet", "tcpSocket"] as const) {
    if (handler[field]?.["host"] !== undefined)
      return { field: `${field}.host`, why: "probes only the Pod's address: remove host" };
  }
  return undefined;
}
