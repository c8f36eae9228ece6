/**
 * Takes out of a text what nobody may read in it: a step may print a secret that it was given, and what it printed goes into
 * logs, messages and states. As the secrets stand, line by line where they have several, and as base64.
 */
export function withoutSecrets(text: string, secrets: readonly string[]): string {
  return secrets
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
