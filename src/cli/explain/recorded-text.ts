import { visible } from "../../base/visible.ts";
import { withoutStop } from "./explanation.ts";

/**
 * A text that a driver or a controller recorded in a status or an Event, for a sentence. Such a text is not trusted: it becomes one
 * line without control characters, and is cut after 300 characters. Stack traces and encoded messages of clouds are longer.
 */
export function recorded(text: string | null | undefined): string {
  const line = withoutStop(visible((text ?? "").slice(0, mostRead).replace(/\s+/g, " ")));
  return line.length <= mostShown ? line : `${line.slice(0, mostShown - 1)}…`;
}

const mostShown = 300;

/** The characters that are read. The rest is ignored. */
const mostRead = 10_000;
