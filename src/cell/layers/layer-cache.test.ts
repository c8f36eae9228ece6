import { expect, it } from "vitest";
import { unpackFailure } from "./layer-cache.ts";

it("reports a damaged layer as lost, and what a node cannot hold by its cause", () => {
  const codeOf = (answer: object) => unpackFailure(JSON.stringify(answer), "").code;
  expect(codeOf({ message: "etc/passwd: entry outside of the root" })).toBe("CheckpointLost");
  expect(codeOf({ message: "mkdir a: name too long", errno: "ENAMETOOLONG" })).toBe("CheckpointLost");
  // The remedy of a full store would free nothing on the node.
  expect(unpackFailure(JSON.stringify({ message: "write a: no space left", errno: "ENOSPC" }), "")).toMatchObject({
    code: "StoreFull",
    hint: expect.stringContaining("Free space on the node's disk") as string,
  });
  expect(codeOf({ message: "write a: input/output error", errno: "EIO" })).toBe("Unavailable");
  expect(unpackFailure("", "fatal error: out of memory")).toMatchObject({
    code: "Unavailable",
    message: "unpacking a layer failed: fatal error: out of memory",
  });
});
