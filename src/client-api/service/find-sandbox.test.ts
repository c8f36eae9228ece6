import { expect, it } from "vitest";
import { uidOf } from "./find-sandbox.ts";

const uid = "11111111-2222-4333-8444-555555555555";

it("reads the UID from an id with or without dashes", () => {
  expect(uidOf(uid)).toBe(uid);
  expect(uidOf(uid.replaceAll("-", ""))).toBe(uid);
  expect(uidOf(uid.toUpperCase())).toBe(uid);
});

it.each(["", "default--a", "1111", `${uid}0`, "../x", "g".repeat(32)])("reads no UID from %j", (id) => {
  expect(uidOf(id)).toBeUndefined();
});
