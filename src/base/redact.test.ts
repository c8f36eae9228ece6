import { expect, it } from "vitest";
import { withoutSecrets } from "./redact.ts";

it("takes a secret out wherever it stands, also one line of it and its base64", () => {
  const secrets = ["-----BEGIN-----\nc3VwZXI\n", "hunter22"];
  expect(withoutSecrets("said hunter22, hunter22!", secrets)).toBe("said [secret], [secret]!");
  expect(withoutSecrets("line c3VwZXI", secrets)).toBe("line [secret]");
  expect(withoutSecrets(Buffer.from("hunter22").toString("base64"), secrets)).toBe("[secret]");
});

it("takes out the longest that fits, and no single letters", () => {
  expect(withoutSecrets("abcdefgh", ["abcd", "abcdefgh"])).toBe("[secret]");
  expect(withoutSecrets("a text", ["a"])).toBe("a text");
  expect(withoutSecrets("a text", [])).toBe("a text");
});
