import { expect, it } from "vitest";
import { RametError } from "../base/errors.ts";
import { retryConflicts } from "./apply.ts";

const failing = (code: "Conflict" | "Forbidden", calls: number[]) => (number: number) => {
  calls.push(number);
  return Promise.reject(new RametError(code, `attempt ${number}`));
};

it("tries again after a conflict, and returns what the first successful attempt returns", async () => {
  const conflict = new RametError("Conflict", "the object has been modified");
  const attempt = (number: number) => (number < 3 ? Promise.reject(conflict) : Promise.resolve(`attempt ${number}`));
  expect(await retryConflicts(attempt)).toBe("attempt 3");
});

it("throws the conflict of the last attempt, and other errors at once", async () => {
  const conflicts: number[] = [];
  await expect(retryConflicts(failing("Conflict", conflicts), 2)).rejects.toThrow("attempt 2");
  expect(conflicts).toEqual([1, 2]);
  const others: number[] = [];
  await expect(retryConflicts(failing("Forbidden", others))).rejects.toThrow("attempt 1");
  expect(others).toEqual([1]);
});
