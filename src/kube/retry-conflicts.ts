import { RametError } from "../base/errors.ts";

/**
 * Calls `attempt` again while it throws `Conflict`, because somebody else has changed the object since it was read. Each further attempt
 * must read the object again. Nothing but the write may throw `Conflict`.
 *
 * @param attempt receives its number, from 1
 * @throws RametError the error of `attempt`: immediately unless it is `Conflict`, otherwise from the last attempt
 */
export async function retryConflicts<T>(attempt: (number: number) => Promise<T>, mostAttempts = 10): Promise<T> {
  for (let number = 1; ; number++) {
    try {
      return await attempt(number);
    } catch (error) {
      if (RametError.from(error).code !== "Conflict" || number >= mostAttempts) throw error;
    }
  }
}
