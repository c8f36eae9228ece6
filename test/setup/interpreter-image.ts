import { ensureInterpreterImage } from "../../src/local/images/interpreter-image.ts";

/** Vitest's global setup of the suites that run code: builds the image once. */
export async function setup(): Promise<void> {
  await ensureInterpreterImage({ progress: console.log });
}
