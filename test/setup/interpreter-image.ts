import type { TestProject } from "vitest/node";
import { ensureInterpreterImage } from "../../src/local/images/interpreter-image.ts";
import { modulesOfChosenFiles } from "./tools.ts";

/** Vitest's global setup of the suites that run code: builds the image once, if a chosen file uses it. */
export async function setup(project: TestProject): Promise<void> {
  const modules = modulesOfChosenFiles(project);
  const needsImage = [...modules].some((module) => module.startsWith("clients/code-interpreter"));
  if (needsImage) await ensureInterpreterImage({ progress: console.log });
}
