import * as z from "zod";
import { expect, it } from "vitest";
import { tolerantParse } from "./tolerant-parse.ts";

const Inner = z.strictObject({ name: z.string() });
const Message = z.strictObject({
  v: z.literal(1),
  list: z.array(Inner).default([]),
  rules: Inner.optional(),
  union: z.discriminatedUnion("kind", [z.strictObject({ kind: z.literal("a") })]).optional(),
});

it("leaves unknown fields out at each level, and names them", () => {
  const input = { v: 1, later: {}, list: [{ name: "x", extra: 1 }, { name: "y" }], union: { kind: "a", of: "b" } };
  expect(tolerantParse(Message, input)).toEqual({
    value: { v: 1, list: [{ name: "x" }, { name: "y" }], union: { kind: "a" } },
    ignored: ["later", "list.0.extra", "union.of"],
  });
  expect(input.later).toEqual({});
});

it("rejects an unknown field below a closed one, and what else the schema rejects", () => {
  expect(() => tolerantParse(Message, { v: 1, rules: { name: "x", extra: 1 } }, ["rules"])).toThrow("extra");
  expect(() => tolerantParse(Message, { v: 1, later: 1, rules: { name: "x", extra: 1 } }, ["rules"])).toThrow("extra");
  expect(() => tolerantParse(Message, { v: 2, later: 1 })).toThrow("expected 1");
  expect(() => tolerantParse(Message, "text")).toThrow();
});
