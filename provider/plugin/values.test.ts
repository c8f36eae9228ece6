import struct from "google-protobuf/google/protobuf/struct_pb.js";
import { expect, it } from "vitest";
import { received } from "./values.ts";

it("leaves out what SDKs add to a resource, and nothing that a program names so", () => {
  const message = struct.Struct.fromJavaScript({
    __defaults: [],
    absent: null,
    recipe: [{ run: "true", env: { __GL_SYNC: "0", A: "1" } }],
  });
  expect(received(message)).toEqual({
    values: { recipe: [{ run: "true", env: { __GL_SYNC: "0", A: "1" } }] },
    secrets: [],
  });
});
