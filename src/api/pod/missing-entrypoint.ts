import * as z from "zod";
import { parsedJson } from "../../base/tolerant-parse.ts";
import type { CellState } from "../wire/cell-api.ts";
import { ImageConfig } from "./resolved-image.ts";

/** Why probes of a sandbox fail if neither its template nor its image names a program. The reason is that of the local node. */
export const missingEntrypoint = {
  reason: "EntrypointMissing",
  cause: "no program was started in the sandbox, because its template has no command and its image has no entrypoint",
  hint: "Set command in the template, or build the image with an entrypoint",
} as const;

/** Whether the cell has started no program. The programs of a restored sandbox are in its memory. */
export function startedNothing({ lacksEntrypoint, memory }: CellState): boolean {
  return lacksEntrypoint === true && memory === undefined;
}

/** A container of a cell, as the API server has it. */
interface CellContainer {
  env?: readonly { name: string; value?: string | undefined }[] | undefined;
}

/** As {@link startedNothing}, from the Pod. Only the local node knows its images, so their configuration is not in its Pods. */
export function startsNothing({ env = [] }: CellContainer): boolean {
  const valueOf = (name: string) => env.find((one) => one.name === name)?.value;
  const cell = parsedJson(Started, valueOf("RAMET_CELL"));
  const image = parsedJson(ImageConfig, valueOf("RAMET_IMAGE_CONFIG"));
  if (cell?.start !== "boot" || image === undefined) return false;
  const { command, args } = cell.container;
  return [command, args, image.entrypoint, image.cmd].every((words) => words.length === 0);
}

const Words = z.array(z.string()).default([]);

/** The fields of a cell's configuration that say what it starts, of any release. */
const Started = z.object({ start: z.string(), container: z.object({ command: Words, args: Words }) });
