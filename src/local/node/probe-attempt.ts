import { once } from "node:events";
import { connect } from "node:net";
import { Agent, request } from "undici";
import * as z from "zod";
import type { Clock } from "../../base/clock.ts";
import { RametError } from "../../base/errors.ts";
import { commandInSandbox } from "../../api/pod/cell-container.ts";
import { tcpProbeOf } from "../../api/pod/tcp-probe.ts";
import type { Container, Handler } from "../../api/schema/pod-template.ts";
import { execInContainer } from "./exec-in-container.ts";
import { probeGrpc } from "./probe-grpc.ts";

/** A container that probes and hooks reach. */
export interface ProbeTarget {
  /** The Pod's address. */
  ip: string;
  container: Container;
  /** The directory of the container's cell on the node. */
  cellDirectory: string;
  clock: Clock;
}

/**
 * Probes once. Resolves with the problem, or undefined on success. Rejects if the probe could not be made, which is no result.
 * `signal` aborts a probe that takes too long.
 */
export type ProbeAttempt = (spec: ProbeSpec, target: ProbeTarget, signal: AbortSignal) => Promise<string | undefined>;

/** Probes as a kubelet does, except that a redirect counts as success and is not followed. */
export const attemptProbe: ProbeAttempt = async (spec, target, signal) => {
  try {
    if (spec.exec !== undefined) return await probeExec(spec, target, signal);
    if (spec.httpGet !== undefined) return await probeHttp(spec, target, signal);
    if (spec.grpc !== undefined) {
      const { port, service = "" } = spec.grpc;
      return await probeGrpc({ ip: target.ip, port, service, signal });
    }
    await probeTcp(spec, target, signal);
    return undefined;
  } catch (error) {
    if (signal.aborted) return "no response in time";
    if (spec.exec !== undefined && isUnmade(error)) throw error;
    return error instanceof Error ? error.message || error.name : String(error);
  }
};

async function probeExec(
  { exec, timeoutSeconds }: ProbeSpec,
  { cellDirectory, clock }: ProbeTarget,
  signal: AbortSignal,
): Promise<string | undefined> {
  const { command } = commandInSandbox(exec?.command ?? []);
  const timeoutMilliseconds = timeoutSeconds * 1000;
  const { exitCode, output } = await execInContainer({ cellDirectory, command, timeoutMilliseconds, signal, clock });
  if (exitCode === 0) return undefined;
  return output === "" ? `exit code ${exitCode}` : `exit code ${exitCode}: ${output.slice(0, maxQuotedCharacters)}`;
}

/** Whether the command did not get to the sandbox: the cell takes none, or this process has no file descriptor left. */
function isUnmade(error: unknown): boolean {
  return !(error instanceof RametError) || error.code === "SandboxNotReady";
}

/** The characters of the output in a message. */
const maxQuotedCharacters = 256;

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
    if (statusCode >= 200 && statusCode < 400) return undefined;
    const tcp = tcpProbeOf({ httpGet });
    return tcp === undefined ? `HTTP status ${statusCode}` : `port ${tcp.port} does not accept connections`;
  } finally {
    await dispatcher.destroy();
  }
}

async function probeTcp({ tcpSocket }: ProbeSpec, target: ProbeTarget, signal: AbortSignal): Promise<void> {
  const port = portNumber(tcpSocket?.port ?? 0, target.container);
  const socket = connect({ host: target.ip, port });
  try {
    await once(socket, "connect", { signal });
  } finally {
    socket.destroy();
  }
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
  exec: z.looseObject({ command: z.array(z.string()).optional() }).optional(),
  grpc: z.looseObject({ port: z.int(), service: z.string().optional() }).optional(),
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
  for (const field of ["httpGet", "tcpSocket"] as const) {
    if (handler[field]?.["host"] !== undefined)
      return { field: `${field}.host`, why: "probes only the Pod's address: remove host" };
  }
  return undefined;
}
