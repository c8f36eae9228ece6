import { group } from "../../../api/schema/kind.ts";
import type { Need } from "../../keys/callers.ts";

const onTemplates = (verb: string): Need[] => [
  { group, resource: "sandboxtemplates", verb },
  { group, resource: "sandboxsets", verb },
];

/** The rights that the operations on templates need. Those on sandboxes need the same as in other dialects. */
export const templateNeeds = { list: onTemplates("list"), read: onTemplates("get") };
