import * as z from "zod";

/** The contents of a checkpoint. A sandbox may also list `ip`, which is never part of a checkpoint. */
export const Contents = z
  .array(z.enum(["memory", "filesystem"]))
  .refine((list) => list.includes("filesystem"), "must be [filesystem] or [memory, filesystem]")
  .refine((list) => new Set(list).size === list.length, "must not list a content twice");
export type Contents = z.infer<typeof Contents>;
