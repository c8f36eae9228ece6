import * as z from "zod";
import { annotations } from "../api/names/labels.ts";
import { Conditions } from "../api/schema/metadata.ts";
import { isConditionTrue } from "../kube/conditions.ts";

/** What a gateway keeps of a Sandbox: little, of ten thousand. */
export interface RoutedSandbox {
  metadata: { namespace: string; name: string; uid: string; resourceVersion: string };
  /** For people: why it is not ready. */
  phase: string;
  isReady: boolean;
  /** The address of its Pod. */
  ip?: string;
  /** The ports that everybody may reach. */
  publicPorts: readonly number[];
}

export function readRoutedSandbox(value: unknown): RoutedSandbox {
  const { metadata, status } = Read.parse(value);
  const { annotations: given, ...own } = metadata;
  const ip = status?.sandboxIp ?? status?.podInfo?.podIP;
  return {
    metadata: own,
    phase: status?.phase ?? "Pending",
    isReady: isConditionTrue(status?.conditions, "Ready"),
    ...(ip !== undefined && { ip }),
    publicPorts: portsIn(given?.[annotations.publicPorts]),
  };
}

/** One that cannot be read opens nothing, whatever else stands beside it. */
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
    annotations: z.record(z.string(), z.string()).optional(),
  }),
  status: z
    .object({
      phase: z.string().optional(),
      conditions: Conditions.optional(),
      podInfo: z.object({ podIP: z.string().optional() }).optional(),
      sandboxIp: z.string().optional(),
    })
    .optional(),
});
