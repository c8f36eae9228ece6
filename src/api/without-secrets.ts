/**
 * Takes out of a text what nobody may read in it: a step that fails may have printed a secret that it was given, and what it
 * printed last goes into messages and into the state. As the secrets stand, line by line where they have several, and as base64.
 */
export function withoutSecrets(text: string, secrets: Readonly<Record<string, string>> = {}): string {
  return Object.values(secrets)
    .flatMap((secret) => [
      secret,
      Buffer.from(secret).toString("base64"),
      ...secret.split("\n").map((line) => line.trim()),
    ])
    .filter((part) => part.length >= leastCharacters)
    .toSorted((a, b) => b.length - a.length)
    .reduce((shown, part) => shown.replaceAll(part, "[secret]"), text);
}

/** What is shorter may be a word of any sentence. */
const leastCharacters = 4;
