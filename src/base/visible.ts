/**
 * Makes control characters visible, as `cat -v` does: a message can have text of a program in a sandbox, which must not move the
 * cursor, set the title of the terminal or hide a line. Line breaks and tabs stay, and JSON keeps its meaning.
 */
export function visible(text: string): string {
  return text.replace(unsafe, (character) => {
    const code = character.charCodeAt(0);
    return code < 0x20 ? `^${String.fromCharCode(code + 0x40)}` : `\\u${code.toString(16).padStart(4, "0")}`;
  });
}

/** Control characters, and those that change the direction of the text after them. */
const unsafe = /[[\p{Cc}\u202a-\u202e\u2066-\u2069]--[\n\t]]/gv;

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
