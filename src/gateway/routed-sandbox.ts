import * as z from "zod";
import { annotations } from "../api/names/labels.ts";
import { Conditions } from "../api/schema/metadata.ts";
import { hasEnded, isMoving, isServing, pauseFailure } from "../api/state/sandbox.ts";
import { cellPort, codeInterpreterPort, guestClientPort, guestControlPort, reportsPort } from "../api/wire/cell-api.ts";
import { defined } from "../base/defined.ts";
import { RametError } from "../base/errors.ts";
import type { ObjectStore } from "../kube/store.ts";

/** The fields of a Sandbox that the gateway caches. They are few because the cache can hold ten thousand sandboxes. */
export interface RoutedSandbox {
  metadata: { namespace: string; name: string; uid: string; resourceVersion: string };
  /** For error messages about a sandbox that is not ready. */
  phase: string;
  isReady: boolean;
  hasEnded: boolean;
  /** Whether a pause was requested. Until it is complete, the sandbox can be ready. */
  isPaused: boolean;
  /** Whether it continues in another Pod. Until it is captured, it can be ready. */
  isMoving: boolean;
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
    isMoving: isMoving(read),
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
      ramet: z
        .object({
          cellKey: z.string().optional(),
          disruption: z.object({ outcome: z.string() }).optional(),
          noTarget: z.unknown().optional(),
        })
        .optional(),
    })
    .optional(),
});

/** The sandbox that an id names. */
export interface Found {
  /** Where the sandbox is, or would be. Empty if the id contains no namespace and no sandbox has this UID. */
  places: { namespace: string; name: string }[];
  sandbox?: RoutedSandbox;
}

/**
 * Finds a sandbox by UID, with or without dashes, or by `<namespace>--<name>`.
 * @throws RametError `InvalidArgument` if the id can be split in two ways, whether or not these sandboxes exist: otherwise a
 *   namespace could take over the host name of another namespace's deleted sandbox
 */
export function findSandbox(store: Pick<ObjectStore<RoutedSandbox>, "get" | "byUid">, id: string): Found {
  const uid = uidOf(id);
  if (uid !== undefined) {
    const sandbox = store.byUid(uid);
    if (sandbox === undefined) return { places: [] };
    const { namespace, name } = sandbox.metadata;
    return { places: [{ namespace, name }], sandbox };
  }
  const places = placesOf(id);
  const [place] = places;
  if (place === undefined) return { places };
  if (places.length > 1) {
    throw new RametError("InvalidArgument", `The id ${id} is ambiguous: it contains -- more than once`, {
      hint: "Use the UID of the Sandbox instead",
    });
  }
  const sandbox = store.get(`${place.namespace}/${place.name}`);
  return defined({ places, sandbox });
}

/** Whether an id is a UID: nobody can guess it, and its owner need not know the sandbox's namespace and name. */
export function isUid(id: string): boolean {
  return uidForm.test(id);
}

/** The UID that an id is, with dashes; undefined if it is none. */
export function uidOf(id: string): string | undefined {
  return isUid(id) ? withDashes(id) : undefined;
}

/** How messages name a sandbox: with what the client already knows. */
export function sandboxTitle(id: string, { metadata: { namespace, name } }: RoutedSandbox): string {
  return isUid(id) ? `sandbox ${id}` : `sandbox ${name} in ${namespace}`;
}

function withDashes(id: string): string {
  if (id.includes("-")) return id;
  return [id.slice(0, 8), id.slice(8, 12), id.slice(12, 16), id.slice(16, 20), id.slice(20)].join("-");
}

/** All ways to split the id into namespace and name. */
function placesOf(id: string): { namespace: string; name: string }[] {
  return [...id.matchAll(/(?=--)/g)].flatMap(({ index }) => {
    const [namespace, name] = [id.slice(0, index), id.slice(index + 2)];
    return isLabel.test(namespace) && isLabel.test(name) ? [{ namespace, name }] : [];
  });
}

const uidForm = /^([0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}|[0-9a-f]{32})$/;
const isLabel = /^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$/;
