import { expect, it } from "vitest";
import { clientNameOf, objectNameOf } from "./client-names.ts";

it.each(["python-data", "python_data", "a_b_c-d"])("returns %s as the client wrote it", (name) => {
  expect(objectNameOf(name)).toMatch(/^[a-z0-9-]+$/);
  expect(clientNameOf(objectNameOf(name))).toBe(name);
});
