import fc from "fast-check";
import { expect, it } from "vitest";
import { checkpointIdOf } from "./checkpoint.ts";

const names = fc.stringMatching(/^[a-z0-9]([-a-z0-9.]{0,250}[a-z0-9])?$/);

it("is a valid DNS label that starts with the name, shortened if needed", () => {
  fc.assert(
    fc.property(names, fc.uuid(), (name, uid) => {
      const id = checkpointIdOf({ name, uid });
      expect(id).toMatch(/^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$/);
      expect(checkpointIdOf({ name, uid })).toBe(id);
    }),
  );
  expect(checkpointIdOf({ name: "my-checkpoint", uid: "u" })).toMatch(/^my-checkpoint-[0-9a-f]{12}$/);
});

it("differs for a later Checkpoint of the same name", () => {
  expect(checkpointIdOf({ name: "a", uid: "1" })).not.toBe(checkpointIdOf({ name: "a", uid: "2" }));
});
