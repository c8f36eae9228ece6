import { errorCodes, isErrorCode } from "../../base/error-codes.ts";
import { RametError } from "../../base/errors.ts";
import { type Io, printLine } from "../io.ts";

/** `ramet explain CODE`: prints what docs/errors.md says about error codes. @throws RametError `NotFound` */
export function explainCodes(io: Io, codes: readonly string[], output: "table" | "json"): void {
  const meanings = codes.map((code) => {
    if (!isErrorCode(code)) {
      throw new RametError("NotFound", `${code} is not an error code of Ramet`, {
        hint: "The codes are listed in docs/errors.md; explain an object with: ramet explain KIND/NAME",
      });
    }
    return { code, meaning: errorCodes[code] };
  });
  if (output === "json") printLine(io.stdout, JSON.stringify(meanings, undefined, 2));
  else for (const { code, meaning } of meanings) printLine(io.stdout, `${code}: ${meaning}`);
}
