import { createHash } from "node:crypto";
import * as z from "zod";
import { parsedJson } from "../../base/tolerant-parse.ts";
import { Digest } from "../schema/digest.ts";
import { engineIdPattern } from "../names/system-names.ts";

export const EngineBuild = z.object({
  /** From `runsc --version`. */
  version: z.string().min(1),
  /** As in Go: `amd64`, `arm64`. */
  architecture: z.string().min(1),
  /** The digest of the guest's program. A sandbox's memory image refers to the program's text and does not contain it. */
  guest: Digest,
  /** The features of the node's CPU, as gVisor names them. Absent: the cell is of a version that does not report them. */
  cpuFeatures: z.array(z.string()).optional(),
});
export type EngineBuild = z.infer<typeof EngineBuild>;

/** The fields that distinguish two engines. */
type EngineParts = Pick<EngineBuild, "version" | "architecture" | "guest">;

/**
 * The id of an engine: 12 hex digits. Cells with the same id can restore each other's memory images, if their CPUs allow it.
 * Stable across releases, because records have it.
 */
export function engineId({ version, architecture, guest }: EngineParts): string {
  return createHash("sha256")
    .update(JSON.stringify([version, architecture, guest]))
    .digest("hex")
    .slice(0, 12);
}

/** The features that a memory image needs and a CPU does not have. An unknown set of either is not compared. */
export function missingFeatures(needed: readonly string[] = [], present: readonly string[] | undefined): string[] {
  if (present === undefined) return [];
  const all = new Set(present);
  return needed.filter((feature) => !all.has(feature));
}

/** The ConfigMap in `ramet-system` in which the controllers remember cell images by engine. Its keys are ids of engines. */
export const enginesConfigMap = "ramet-engines";

/** An engine, and the cell image that has it. */
export const KnownEngine = z.object({
  /** The image for a restore, with its digest if a node has reported it. */
  image: z.string().min(1),
  /** The value of `--cell-image` under which the image was current. */
  name: z.string().min(1),
  /** As in Go: `amd64`. Absent: an option named the engine. */
  architecture: z.string().optional(),
  /** The gVisor build. */
  version: z.string().optional(),
  guest: z.string().optional(),
});
export type KnownEngine = z.infer<typeof KnownEngine>;

/** Reads the data of the ConfigMap. Entries that are not valid are left out: a later release may have written them. */
export function parseEngineList(data: Readonly<Record<string, string>> | null | undefined): Map<string, KnownEngine> {
  return new Map(
    Object.entries(data ?? {}).flatMap(([id, text]): [string, KnownEngine][] => {
      const engine = engineIdPattern.test(id) ? parsedJson(KnownEngine, text) : undefined;
      return engine === undefined ? [] : [[id, engine]];
    }),
  );
}

/** Whether a Pod with the current cell image runs this engine. `unknown`: no cell with that image has been seen yet. */
export type EngineState = "current" | "earlier" | "missing" | "unknown";

export interface NeededEngine {
  engineId?: string | undefined;
  architecture?: string | undefined;
}

/**
 * The state of a needed engine. A cell image has one engine for each architecture, so engines of different architectures are
 * not compared.
 * @param cellImage the current value of `--cell-image`
 */
export function engineState(
  engines: ReadonlyMap<string, KnownEngine>,
  cellImage: string,
  { engineId: id, architecture }: NeededEngine,
): EngineState {
  if (id === undefined) return "unknown";
  const own = engines.get(id);
  if (own?.name === cellImage) return "current";
  const wanted = own?.architecture ?? architecture;
  const isComparable = [...engines.values()].some(
    (one) =>
      one.name === cellImage && (wanted === undefined || one.architecture === undefined || one.architecture === wanted),
  );
  if (own !== undefined) return isComparable ? "earlier" : "unknown";
  return isComparable ? "missing" : "unknown";
}
