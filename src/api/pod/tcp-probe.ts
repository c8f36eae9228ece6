import type { Container, Handler } from "../schema/pod-template.ts";
import { cellPort } from "../wire/cell-api.ts";

export const probeFields = ["startupProbe", "readinessProbe", "livenessProbe"] as const;
export type ProbeField = (typeof probeFields)[number];

/** A `tcpSocket` probe as the cell answers it. */
export interface TcpProbe {
  port: number;
  /** A liveness probe tests the program only: not the time in which the cell starts, captures or replaces the sandbox. */
  isLiveness: boolean;
}

/**
 * Returns a `tcpSocket` probe as a request to the cell, which connects to the port inside the sandbox. At the Pod's address
 * link accepts the connections, also before the program listens. Other probes are returned unchanged, and so are a
 * probe of another host and one that names an unknown port, which the kubelet reports.
 */
export function tcpProbeThroughCell(field: ProbeField, probe: Handler, container: Container): Handler {
  const port = probedPort(probe, container);
  if (port === undefined) return probe;
  const { tcpSocket: _, ...timing } = probe;
  return { ...timing, httpGet: { path: pathOf({ port, isLiveness: field === "livenessProbe" }), port: cellPort } };
}

export function tcpProbePorts(container: Container): number[] {
  const ports = probeFields.map((field) => container[field] && probedPort(container[field], container));
  return [...new Set(ports.filter((port) => port !== undefined))];
}

/** The inverse of `tcpProbeThroughCell`. Undefined: the probe is another one. */
export function tcpProbeOf({ httpGet }: HttpProbe): TcpProbe | undefined {
  const { port, path } = httpGet ?? {};
  return port === cellPort && typeof path === "string" ? parseTcpProbePath(path) : undefined;
}

interface HttpProbe {
  httpGet?: { port?: unknown; path?: unknown } | null | undefined;
}

/** Reads the path of a request to the cell. */
export function parseTcpProbePath(path: string): TcpProbe | undefined {
  const [, port, live] = /^\/tcpz\/([1-9]\d{0,4})(\/live)?$/.exec(path) ?? [];
  return port === undefined ? undefined : { port: Number(port), isLiveness: live !== undefined };
}

function pathOf({ port, isLiveness }: TcpProbe): string {
  return `/tcpz/${port}${isLiveness ? "/live" : ""}`;
}

function probedPort({ tcpSocket }: Handler, { ports = [] }: Container): number | undefined {
  if (tcpSocket === undefined || (tcpSocket["host"] ?? "") !== "") return undefined;
  const { port } = tcpSocket;
  return typeof port === "number" ? port : ports.find(({ name }) => name === port)?.containerPort;
}
