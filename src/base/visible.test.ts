import { expect, it } from "vitest";
import { withoutSecrets } from "./visible.ts";

it("replaces a secret, a single line of it, and its base64 form", () => {
  const secrets = ["-----BEGIN-----\nc3VwZXI\n", "hunter22"];
  expect(withoutSecrets("the password hunter22, hunter22!", secrets)).toBe("the password [secret], [secret]!");
  expect(withoutSecrets("line c3VwZXI", secrets)).toBe("line [secret]");
  expect(withoutSecrets(Buffer.from("hunter22").toString("base64"), secrets)).toBe("[secret]");
});

it("replaces the longest match and ignores secrets that are too short", () => {
  expect(withoutSecrets("abcdefgh", ["abcd", "abcdefgh"])).toBe("[secret]");
  expect(withoutSecrets("a text", ["a"])).toBe("a text");
  expect(withoutSecrets("a text", [])).toBe("a text");
});
