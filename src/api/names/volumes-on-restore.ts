import { RametError } from "../../base/errors.ts";
import { annotations, templateAnnotations } from "./labels.ts";

/**
 * The volumes of a restored sandbox, if the checkpoint does not have the data of its source's PersistentVolumeClaims. `Empty`: new
 * claims. `Shared`: the claims of the source.
 */
export const volumesOnRestore = ["Empty", "Shared"] as const;
export type VolumesOnRestore = (typeof volumesOnRestore)[number];

/**
 * The choice in an object's annotation. Undefined: none is made.
 * @param template the Pod template of the sandbox. The sandbox's own annotation takes precedence
 * @throws RametError `InvalidArgument` for another text
 */
export function volumesChoice(
  { metadata }: { metadata: { annotations?: Record<string, string> | undefined } },
  template?: unknown,
): VolumesOnRestore | undefined {
  const key = annotations.volumesOnRestore;
  const text = metadata.annotations?.[key] ?? templateAnnotations(template)?.[key];
  if (text === undefined || text === "") return undefined;
  const choice = volumesOnRestore.find((one) => one === text);
  if (choice !== undefined) return choice;
  throw new RametError("InvalidArgument", `The annotation ${key} is ${JSON.stringify(text)}, not Empty or Shared`, {
    hint: "Set it to Empty for new claims, or to Shared for the claims of the checkpoint's source",
  });
}
