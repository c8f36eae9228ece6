import * as z from "zod";
import { guestClientPort } from "../../api/wire/cell-api.ts";
import type { Sandbox } from "../../api/kinds/sandbox.ts";
import { RametError } from "../../base/errors.ts";
import { currentState } from "./lifecycle.ts";
import type { ServiceParts } from "./parts.ts";
import type { ReadSandbox } from "./read-sandbox.ts";

/** The resources that a sandbox uses now, and its limits. */
export interface SandboxMetrics {
  time: Date;
  cpuCount: number;
  /** The share of all its CPUs together: at most 100. */
  cpuUsedPercent: number;
  memoryUsedBytes: number;
  memoryTotalBytes: number;
  memoryCacheBytes: number;
  diskUsedBytes: number;
  diskTotalBytes: number;
}

/**
 * Asks the guest of a running sandbox. Undefined: it is not running. A paused one stays paused.
 * @throws RametError `Unavailable`
 */
export async function sandboxMetrics(
  parts: ServiceParts,
  read: ReadSandbox,
  sandbox: Sandbox,
  signal: AbortSignal,
): Promise<SandboxMetrics | undefined> {
  const state = currentState(parts, sandbox);
  if (state !== "running" && state !== "snapshotting") return undefined;
  const request = { port: guestClientPort, path: "/metrics", limitBytes: 64 * 1024, signal };
  const text = await read(sandbox, request);
  const { success, data } = GuestMetrics.safeParse(parsed(text));
  if (!success) throw new RametError("Unavailable", `The sandbox ${sandbox.metadata.name} sent no valid metrics`);
  return {
    time: parts.clock.now(),
    cpuCount: data.cpu_count,
    cpuUsedPercent: data.cpu_used_pct,
    memoryUsedBytes: data.mem_used,
    memoryTotalBytes: data.mem_total,
    memoryCacheBytes: data.mem_cache,
    diskUsedBytes: data.disk_used,
    diskTotalBytes: data.disk_total,
  };
}

/** The guest can be replaced by root in the sandbox. */
function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

const Bytes = z.int().min(0);
const GuestMetrics = z.object({
  cpu_count: z.int().min(0),
  cpu_used_pct: z.number().min(0),
  mem_used: Bytes,
  mem_total: Bytes,
  mem_cache: Bytes.default(0),
  disk_used: Bytes.default(0),
  disk_total: Bytes.default(0),
});
