import { z } from "zod";
import { RametError } from "../api/errors.ts";
import { parseImageReference } from "../api/image-reference.ts";

/** Texts and counts that a Pulumi program does not know yet are of its own types. */
export interface InstallOptions<Text = string, Count = number> {
  /** Of the controllers. Their lease and the key of the cells are in `ramet-system` in any case. */
  namespace: string;
  /** Of the controllers' Deployment: who declares it. */
  annotations?: Record<string, string>;
  /** The image with the command `ramet`. */
  image: Text;
  /** The image of the cell, in which sandboxes run. */
  cellImage: Text;
  /** How many controllers stand by; one of them works. */
  replicas: Count;
  /** A PersistentVolumeClaim of the namespace, and where it is mounted. */
  store: { directory: Text; claim: Text };
}

/**
 * Install options as a person has given them.
 * @param fieldNames what the person calls a field: `--cell-image` for `cellImage`
 * @throws RametError `InvalidArgument`, naming the first that is not legal
 */
export function parseInstallOptions(given: unknown, fieldNames: Readonly<Record<string, string>>): InstallOptions {
  const result = Options.safeParse(given);
  if (result.success) return result.data;
  const [issue] = result.error.issues;
  const field = issue?.path.join(".") ?? "";
  throw new RametError("InvalidArgument", `${fieldNames[field] ?? field} ${issue?.message ?? "is not legal"}`);
}

const Image = z.string().refine((text) => parseImageReference(text) !== undefined, {
  error: ({ input }) => `is no image's name: ${JSON.stringify(input)}`,
});
const Label = z.string().regex(/^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$/, {
  error: ({ input }) => `is no DNS label: ${JSON.stringify(input)}`,
});
const ObjectName = z
  .string()
  .max(253)
  .regex(/^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$/, {
    error: ({ input }) => `is no object's name: ${JSON.stringify(input)}`,
  });
// A container has no volume at a path with a colon.
const Directory = z.string().regex(/^\/[^:]*[^:/]$/, {
  error: ({ input }) => `is no absolute path of a folder: ${JSON.stringify(input)}`,
});

const Options = z.strictObject({
  namespace: Label,
  image: Image,
  cellImage: Image,
  replicas: z.int().min(1, "must be at least 1"),
  store: z.strictObject({ directory: Directory, claim: ObjectName }),
});
