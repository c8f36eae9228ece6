import * as z from "zod";

/** What a checkpoint holds. `ip` is legal in a sandbox's wish and never part of a checkpoint. */
export const Contents = z
  .array(z.enum(["memory", "filesystem"]))
  .refine((list) => list.includes("filesystem"), "must be [filesystem] or [memory, filesystem]")
  .refine((list) => new Set(list).size === list.length, "names a content twice");
export type Contents = z.infer<typeof Contents>;
