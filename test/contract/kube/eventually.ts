import { expect } from "vitest";

/** Asserts what becomes true once sockets have been heard; generous, as machines that test are busy. */
export function eventually<T>(actual: () => T) {
  return expect.poll(actual, { timeout: 30_000, interval: 5 });
}
