import * as z from "zod";
import { RametError } from "../../base/errors.ts";

/** A literal text, or where a secret text is. */
const ClientPart = z.union([
  z.strictObject({ text: z.string().max(16_384) }),
  /** A secret that a client of the client API has stored. */
  z.strictObject({ clientSecret: z.string().min(1).max(253) }),
  z.strictObject({
    token: z.strictObject({ account: z.string().min(1).max(253), audience: z.string().min(1).max(512) }),
  }),
]);
export const ClientParts = z.array(ClientPart).max(32);
export type ClientPart = z.infer<typeof ClientPart>;

/** A part of a value. Only an annotation that its author may write can name a Secret. */
export type ValuePart = ClientPart | { secret: { name: string; key: string } };

/**
 * The references in a text: `$(secret/NAME/KEY)` and `$(token/ACCOUNT/AUDIENCE)`. An admission policy finds the names of Secrets and
 * accounts with the same expressions (src/install/credential-policies.ts).
 */
const reference = /\$\((secret|token)\/([a-z0-9.-]{1,253})\/([^()\s]{1,512})\)/g;

/**
 * Parses a value such as `Bearer $(secret/openai/token)`.
 * @throws RametError `InvalidArgument` if a reference has another form
 */
export function parseValue(text: string, path: string): ValuePart[] {
  const parts: ValuePart[] = [];
  let end = 0;
  for (const { 0: whole, 1: kind, 2: name = "", 3: detail = "", index } of text.matchAll(reference)) {
    addText(parts, text.slice(end, index), path);
    parts.push(kind === "secret" ? { secret: { name, key: detail } } : { token: { account: name, audience: detail } });
    end = index + whole.length;
  }
  addText(parts, text.slice(end), path);
  return parts;
}

/** The references as they are written. */
export function referencesIn(text: string): string[] {
  return [...text.matchAll(reference)].map(([whole]) => whole);
}

function addText(parts: ValuePart[], text: string, path: string): void {
  if (/\$\((secret|token)\b/.test(text)) {
    throw new RametError("InvalidArgument", `${path} has a reference that is not valid`, {
      hint: "Write it as $(secret/NAME/KEY) or $(token/ACCOUNT/AUDIENCE)",
    });
  }
  if (text !== "") parts.push({ text });
}
