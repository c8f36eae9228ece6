import { expect } from "vitest";

/** Asserts a condition that becomes true after socket events. The timeout is long because test machines are busy. */
export function eventually<T>(actual: () => T) {
  return expect.poll(actual, { timeout: 30_000, interval: 5 });
}
