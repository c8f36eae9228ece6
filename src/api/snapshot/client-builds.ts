import * as z from "zod";
import type { NamedSnapshot } from "../kinds/named-snapshot.ts";
import { annotations, jsonAnnotation } from "../names/labels.ts";
import { tagPattern } from "./snapshot-reference.ts";

/** One build that a client has requested. The named snapshot has one spec, so only the build that started last can be in progress. */
export const ClientBuild = z.object({
  /** A UUID. */
  id: z.string().max(64),
  requestedAt: z.string().max(40),
  /** The tags that its version gets. */
  tags: z.array(z.string().regex(tagPattern)).max(50),
  cpuCount: z.int().min(1).max(1024).optional(),
  memoryMB: z.int().min(1).max(16_777_216).optional(),
  /** For each step of the recipe, the step of the client that it belongs to. Absent: the client has not started the build. */
  origins: z.array(z.string().max(20)).max(100).optional(),
  startedAt: z.string().max(40).optional(),
  /** Set when the build has ended. */
  outcome: z
    .union([
      z.object({ version: z.int().min(1) }),
      z.object({ error: z.string().max(4096), step: z.string().max(20).optional() }),
    ])
    .optional(),
});
export type ClientBuild = z.infer<typeof ClientBuild>;

const ClientBuilds = z.array(ClientBuild);

/** The latest builds that clients have requested, oldest first. An annotation that nobody can read has none. */
export function clientBuildsOf(snapshot: Pick<NamedSnapshot, "metadata">): ClientBuild[] {
  return jsonAnnotation(snapshot, annotations.clientBuilds, ClientBuilds) ?? [];
}

/** Whether clients build the named snapshot, so that no other program declares its spec. */
export function isBuiltByClients({ metadata }: Pick<NamedSnapshot, "metadata">): boolean {
  return metadata.annotations?.[annotations.clientBuilds] !== undefined;
}

/** The annotation with these builds; the oldest ones are dropped. */
export function clientBuildsAnnotation(builds: readonly ClientBuild[]): Record<string, string> {
  return { [annotations.clientBuilds]: JSON.stringify(builds.slice(-mostBuilds)) };
}

const mostBuilds = 20;
