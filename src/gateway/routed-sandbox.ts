import { hasEnded, isServing, pauseFailure } from "../api/state/sandbox.ts";
import * as z from "zod";
import { cellPort, codeInterpreterPort, guestClientPort, guestControlPort, reportsPort } from "../api/wire/cell-api.ts";
import { annotations } from "../api/names/labels.ts";
import { Conditions } from "../api/schema/metadata.ts";
import { defined } from "../base/defined.ts";

/** The fields of a Sandbox that the gateway caches. They are few because the cache can hold ten thousand sandboxes. */
export interface RoutedSandbox {
  metadata: { namespace: string; name: string; uid: string; resourceVersion: string };
  /** For error messages about a sandbox that is not ready. */
  phase: string;
  isReady: boolean;
  hasEnded: boolean;
  /** Whether a pause was requested. Until it is complete, the sandbox can be ready. */
  isPaused: boolean;
  /** Whether traffic resumes it, as far as its annotation says. The client API decides. */
  autoResume: boolean;
  ip?: string;
  /** The public key of its Pod's cell; absent: the cell is of a version without one. */
  cellKey?: string;
  /** The ports that do not require a token. `all`: see `isPublicPort`. */
  publicPorts: "all" | readonly number[];
  /** The ports to which requests over HTTP/2 are proxied over HTTP/2. */
  http2Ports: readonly number[];
  /** The ports whose programs serve HTTPS. */
  httpsPorts: readonly number[];
  /** The annotation for the header `Host` of requests to its ports. */
  requestHost?: string;
}

export function readRoutedSandbox(value: unknown): RoutedSandbox {
  const read = Read.parse(value);
  const { metadata, status } = read;
  const { annotations: given = {}, generation: _, ...own } = metadata;
  const requestHost = given[annotations.requestHost];
  return {
    metadata: own,
    phase: status?.phase ?? "Pending",
    isReady: isServing(read),
    hasEnded: hasEnded(read),
    // After a failed pause, the sandbox continues to run.
    isPaused: read.spec?.paused === true && pauseFailure(read) === undefined,
    autoResume: given[annotations.autoResume] !== undefined,
    ...cellOf(status),
    publicPorts: given[annotations.publicPorts]?.trim() === "*" ? "all" : portsIn(given[annotations.publicPorts]),
    http2Ports: portsIn(given[annotations.http2Ports]),
    httpsPorts: portsIn(given[annotations.httpsPorts]),
    ...defined({ requestHost }),
  };
}

/** Whether a port requires no token. `*` does not contain the ports through which clients enter the sandbox. */
export function isPublicPort({ publicPorts }: RoutedSandbox, port: number): boolean {
  if (port === reportsPort) return false;
  return publicPorts === "all" ? !entrances.has(port) : publicPorts.includes(port);
}

/** Whether clients enter the sandbox through a port, so that knowing its id is not enough. */
export function isEntrance(port: number): boolean {
  return entrances.has(port);
}

const entrances: ReadonlySet<number> = new Set([cellPort, guestControlPort, guestClientPort, codeInterpreterPort]);

function cellOf(status: z.infer<typeof Read>["status"]): Pick<RoutedSandbox, "ip" | "cellKey"> {
  const ip = status?.sandboxIp ?? status?.podInfo?.podIP;
  const cellKey = status?.ramet?.cellKey;
  return defined({ ip, cellKey });
}

/** An invalid list names no port at all. */
function portsIn(text = ""): number[] {
  const parts = text.split(",").map((part) => part.trim());
  return parts.every((part) => /^\d{1,5}$/.test(part)) ? parts.map(Number) : [];
}

const Read = z.object({
  metadata: z.object({
    namespace: z.string(),
    name: z.string(),
    uid: z.string(),
    resourceVersion: z.string(),
    generation: z.number().optional(),
    annotations: z.record(z.string(), z.string()).optional(),
  }),
  spec: z.object({ paused: z.boolean().optional() }).optional(),
  status: z
    .object({
      phase: z.string().optional(),
      observedGeneration: z.number().optional(),
      conditions: Conditions.optional(),
      podInfo: z.object({ podIP: z.string().optional() }).optional(),
      sandboxIp: z.string().optional(),
      ramet: z.object({ cellKey: z.string().optional() }).optional(),
    })
    .optional(),
});
