import fc from "fast-check";
import { expect, it } from "vitest";
import { parseSnapshotReference, printSnapshotReference } from "./snapshot-reference.ts";

const digest = `sha256:${"ab".repeat(32)}`;

it.each([
  ["python", { name: "python" }],
  ["python-data@7", { name: "python-data", version: 7 }],
  [`a@${digest}`, { name: "a", digest }],
])("parses %s", (text, reference) => {
  expect(parseSnapshotReference(text)).toEqual(reference);
});

it.each(["", "@7", "a@", "a@0", "a@07", "a@-1", "a@1.5", "a@1@2", "A", "a/b", "a@sha256:12", "a@99999999999", "-a"])(
  "rejects %j with a hint",
  (text) => {
    expect(() => parseSnapshotReference(text)).toThrow(expect.objectContaining({ code: "InvalidArgument" }));
  },
);

it("parses what it prints to the same reference", () => {
  const name = fc.stringMatching(/^[a-z0-9]([-a-z0-9]{0,20}[a-z0-9])?$/);
  const pin = fc.oneof(
    fc.constant({}),
    fc.record({ version: fc.integer({ min: 1, max: 2 ** 31 - 1 }) }),
    fc.record({ digest: fc.stringMatching(/^sha256:[0-9a-f]{64}$/) }),
  );
  fc.assert(
    fc.property(name, pin, (named, pinned) => {
      const reference = { name: named, ...pinned };
      expect(parseSnapshotReference(printSnapshotReference(reference))).toEqual(reference);
    }),
  );
});
