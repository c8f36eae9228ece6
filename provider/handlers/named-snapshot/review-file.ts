import { appendFileSync, writeFileSync } from "node:fs";
import { errnoOf } from "../../../src/base/errors.ts";

/**
 * Appends a row to a table, with its headings if there is no file. Differences of one process wait for each other. Those of several
 * providers only append, so that none overwrites what another has written.
 */
export function appendBelow(path: string, headings: string, row: string): void {
  try {
    writeFileSync(path, headings, { flag: "ax" });
  } catch (error) {
    if (errnoOf(error) !== "EEXIST") throw error;
  }
  appendFileSync(path, row);
}
