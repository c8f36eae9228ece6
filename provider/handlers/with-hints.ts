import { RametError } from "../../src/base/errors.ts";
import type { ResourceHandler } from "./handler.ts";

/** Pulumi shows the message of an error alone: so what to do about it, and the code, go into that. */
export function withHints(handler: ResourceHandler): ResourceHandler {
  return {
    check: (...values) => told(handler.check(...values)),
    diff: (...values) => told(handler.diff(...values)),
    create: (...values) => told(handler.create(...values)),
    read: (...values) => told(handler.read(...values)),
    update: (...values) => told(handler.update(...values)),
    delete: (...values) => told(handler.delete(...values)),
  };
}

async function told<T>(answer: Promise<T>): Promise<T> {
  try {
    return await answer;
  } catch (error) {
    throw error instanceof RametError ? new Error(error.describe(), { cause: error }) : error;
  }
}
