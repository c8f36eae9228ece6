/**
 * Replaces secrets in a text by `[secret]`. A recipe step can print a secret that it received, and its output goes into logs,
 * messages and Pulumi state. Replaces each secret, each line of a secret with several lines, and its base64 form.
 */
export function withoutSecrets(text: string, secrets: readonly string[]): string {
  return secrets
    .flatMap((secret) => [
      secret,
      Buffer.from(secret).toString("base64"),
      ...secret.split("\n").map((line) => line.trim()),
    ])
    .filter((part) => part.length >= minimumCharacters)
    .toSorted((a, b) => b.length - a.length)
    .reduce((shown, part) => shown.replaceAll(part, "[secret]"), text);
}

/** A shorter part could match ordinary words. */
const minimumCharacters = 4;
