import { execFileSync } from "node:child_process";
import { expect, it } from "vitest";
import { formatVariables } from "./env.ts";

const variables = { E2B_API_KEY: "e2b_0", SSL_CERT_FILE: "/home/o'neil a/\\ca" };

it("prints commands that a POSIX shell reads", () => {
  const text = formatVariables(variables, "sh");
  expect(text).toBe(
    `unset E2B_API_URL\nunset E2B_SANDBOX_URL\nexport E2B_API_KEY=e2b_0\nexport SSL_CERT_FILE='/home/o'\\''neil a/\\ca'\n`,
  );
  const script = `${text}printf '%s %s' "\${E2B_SANDBOX_URL:-}" "$SSL_CERT_FILE"`;
  const env = { ...process.env, E2B_SANDBOX_URL: "http://old" };
  expect(execFileSync("sh", ["-euc", script], { env }).toString()).toBe(` ${variables.SSL_CERT_FILE}`);
});

it("prints commands of fish, and JSON", () => {
  expect(formatVariables({ ...variables, E2B_API_URL: "a", E2B_SANDBOX_URL: "b" }, "fish")).toBe(
    "set -gx E2B_API_KEY e2b_0\nset -gx SSL_CERT_FILE '/home/o\\'neil a/\\\\ca'\nset -gx E2B_API_URL a\nset -gx E2B_SANDBOX_URL b\n",
  );
  expect(JSON.parse(formatVariables(variables, "json"))).toEqual(variables);
});
