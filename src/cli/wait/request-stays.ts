import { RametError } from "../../base/errors.ts";

/**
 * What a person is told when a wait ends before what was waited for: the object stays in the API, and the controllers
 * go on with it.
 *
 * @param what `the sandbox a`
 * @param state how it is by now
 * @param look the command that shows how it goes on
 */
export function wishStays(
  error: unknown,
  { what, state, look }: { what: string; state: string; look: string },
): RametError {
  const known = RametError.from(error);
  if (known.code === "Timeout") {
    return new RametError("Timeout", `Waiting for ${what} took too long: it is ${state}`, {
      hint: `The wish stays, and Ramet goes on with it. Look with: ${look}`,
      cause: error,
    });
  }
  if (known.code === "Canceled") {
    return new RametError("Canceled", `Waiting for ${what} was interrupted: it is ${state}`, {
      hint: `The wish stays, and Ramet goes on with it. Look with: ${look}`,
      cause: error,
    });
  }
  return known;
}
