import { expect, it } from "vitest";
import * as z from "zod";
import { validate, unknownValue } from "./validate.ts";

const schema = z.object({ name: z.string().max(5), list: z.array(z.object({ port: z.int() })) });

it("names invalid properties", () => {
  expect(validate(schema, { name: "too long", list: [{ port: 1 }, { port: "x" }] })).toMatchObject([
    { property: "name" },
    { property: "list[1].port" },
  ]);
});

it("ignores unknown values and reports all others", () => {
  const values = { name: unknownValue, list: [{ port: unknownValue }, { port: "x" }] };
  expect(validate(schema, values)).toMatchObject([{ property: "list[1].port" }]);
  expect(validate(schema, { name: "ok", list: unknownValue })).toEqual([]);
});
