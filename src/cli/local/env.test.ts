import { execFileSync } from "node:child_process";
import { expect, it } from "vitest";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { formatVariables, withGiven } from "./env.ts";

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

it("adds the cluster's authority to those that the user's environment names, once", async () => {
  const directory = await mkdtemp(join(tmpdir(), "ramet-"));
  try {
    const [ca, proxy] = [join(directory, "ca.crt"), join(directory, "proxy.pem")];
    await writeFile(ca, "authority\n");
    await writeFile(proxy, "proxy");
    const files = { ca, own: ca };
    const fileFor = (given?: string) => withGiven({ NODE_EXTRA_CA_CERTS: given }, "NODE_EXTRA_CA_CERTS", files);
    for (const given of [undefined, "", ca, join(directory, "missing")]) expect(await fileFor(given)).toBe(ca);
    const both = await fileFor(proxy);
    expect(await readFile(both, "utf8")).toBe("proxy\nauthority\n");
    expect(await fileFor(both)).toBe(both);
    expect(await readFile(both, "utf8")).toBe("proxy\nauthority\n");
    expect(await readFile(proxy, "utf8")).toBe("proxy");
  } finally {
    await rm(directory, { recursive: true });
  }
});
