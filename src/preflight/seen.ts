import { RametError } from "../base/errors.ts";
import { type Deadline, within } from "../base/within.ts";

/** A fact, or why it could not be read, so that nobody takes it for absent. */
export type Seen<T> = { value: T } | Unread;

export interface Unread {
  /** The reason. */
  unknown: string;
  /** What the user is not allowed to read. */
  refused?: string;
}

/** Reads one thing within its time. @param what its plural, for the reason why it is unknown @throws RametError if the caller aborts */
export async function see<T>(
  { what, ...deadline }: Deadline,
  read: (signal: AbortSignal) => Promise<T>,
): Promise<Seen<T>> {
  try {
    return { value: await within({ ...deadline, what: `Reading ${what}` }, read) };
  } catch (thrown) {
    if (deadline.signal?.aborted === true) throw thrown;
    const { code, message } = RametError.from(thrown);
    if (code !== "Forbidden") return { unknown: message };
    return { unknown: `you are not allowed to read ${what}`, refused: what };
  }
}
