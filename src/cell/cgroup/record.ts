import { readFile, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import * as z from "zod";
import { type CgroupPlan, commonDirectory } from "./plan.ts";
import { removeGroups, removeIfEmpty } from "./remove-groups.ts";

const CgroupRecord = z.object({ v: z.literal(1), remove: z.array(z.string()), removeIfEmpty: z.array(z.string()) });

/** Puts down, before any is made, which groups a cell makes: who finds it killed can remove them. */
export async function writeCgroupRecord(
  directory: string,
  { remove, removeIfEmpty: shared }: CgroupPlan,
): Promise<void> {
  const record: z.infer<typeof CgroupRecord> = { v: 1, remove, removeIfEmpty: shared };
  await writeFile(recordFile(directory), JSON.stringify(record), { mode: 0o600 });
}

/**
 * Removes the groups that a cell left, by the record in its folder; none of its processes may run any more. A group's
 * folder can be removed only while nothing is in it, so a record cannot do harm elsewhere.
 */
export async function sweepCgroups(directory: string): Promise<void> {
  const text = await readFile(recordFile(directory), "utf8").catch(() => undefined);
  if (text === undefined) return;
  const record = parsed(text);
  await removeGroups((record?.remove ?? []).filter(isOurs));
  for (const directory of (record?.removeIfEmpty ?? []).filter(isOurs)) await removeIfEmpty(directory);
  await rm(recordFile(directory), { force: true });
}

function recordFile(directory: string): string {
  return join(directory, "cgroups.json");
}

/** A record that a crash of the machine cut short needs no sweeping: the groups went with the machine. */
function parsed(text: string): z.infer<typeof CgroupRecord> | undefined {
  try {
    return CgroupRecord.parse(JSON.parse(text));
  } catch {
    return undefined;
  }
}

function isOurs(directory: string): boolean {
  return directory.split("/").includes(commonDirectory);
}
