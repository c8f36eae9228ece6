import { readFileSync, renameSync, writeFileSync } from "node:fs";
import { readFile, rename, stat, writeFile } from "node:fs/promises";
import type * as z from "zod";
import { hasSystemCode, resultOr } from "../base/errors.ts";

/** Writes a file that only the owner can read. Readers find all of the old or of the new content. */
export async function replaceFile(path: string, text: string): Promise<void> {
  const temporary = `${path}.${process.pid}.new`;
  await writeFile(temporary, text, { mode: 0o600 });
  await rename(temporary, path);
}

export function replaceFileSync(path: string, text: string): void {
  writeFileSync(`${path}.new`, text, { mode: 0o600 });
  renameSync(`${path}.new`, path);
}

/** @returns undefined if the file does not exist */
export async function readIfExists(path: string): Promise<string | undefined> {
  return readFile(path, "utf8").catch(unlessMissing);
}

/** @returns undefined if the file does not exist */
export function readIfExistsSync(path: string): string | undefined {
  try {
    return readFileSync(path, "utf8");
  } catch (error) {
    unlessMissing(error);
    return undefined;
  }
}

/** The value of a JSON file. Undefined if it is missing, cannot be read, or is not valid: a crash of the machine may leave half of it. */
export function readJsonSync<T extends z.ZodType>(schema: T, path: string): z.output<T> | undefined {
  return resultOr(() => schema.parse(JSON.parse(readFileSync(path, "utf8"))), undefined);
}

export async function exists(path: string): Promise<boolean> {
  return (await stat(path).catch(unlessMissing)) !== undefined;
}

/** Passes on errors other than that a file does not exist. */
export function unlessMissing(error: unknown): undefined {
  if (!hasSystemCode(error, "ENOENT")) throw error;
}
