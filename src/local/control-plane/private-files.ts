import { readFile, rename, writeFile } from "node:fs/promises";
import type { KeyPair } from "./certificate.ts";

/** Writes a file that only the owner can read. Readers see all of it or nothing. */
export async function writePrivate(path: string, text: string): Promise<void> {
  const temporary = `${path}.${process.pid}.new`;
  await writeFile(temporary, text, { mode: 0o600 });
  await rename(temporary, path);
}

/** @returns undefined if the file does not exist */
export async function readIfExists(path: string): Promise<string | undefined> {
  try {
    return await readFile(path, "utf8");
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return undefined;
    throw error;
  }
}

/** Certificate and key in one file: a crash cannot leave one without the other. */
export function bundle({ certificate, key }: KeyPair): string {
  return certificate + key;
}

export function unbundle(text: string): KeyPair {
  const at = text.indexOf("-----BEGIN PRIVATE KEY-----");
  return { certificate: text.slice(0, at), key: text.slice(at) };
}
