import { chmod, mkdtemp, rm, writeFile } from "node:fs/promises";
import { homedir, tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { defaultDomain, makeUserDirectory, parseDomain, userDirectory } from "./cluster-directory.ts";

it.each([defaultDomain, "127-0-0-1.example.org", "a.b"])("accepts %s", (domain) => {
  expect(parseDomain(domain)).toBe(domain);
  expect(parseDomain(domain.toUpperCase())).toBe(domain);
});

it.each(["", "localhost", "a..b", "-a.b", "a.b:80", "*.a.b", "a b.c", "../a.b", "127.0.0.1", `${"a.".repeat(100)}b`])(
  "rejects %j",
  (domain) => {
    expect(() => parseDomain(domain)).toThrow("Invalid domain");
  },
);

describe("userFolder", () => {
  it("is below the variable, or below the home if the variable is not set or relative", () => {
    const at = (value?: string) => userDirectory({ XDG_DATA_HOME: value }, "XDG_DATA_HOME", [".local", "share"]);
    expect(at("/srv/data")).toBe("/srv/data/ramet");
    for (const value of [undefined, "", "data"]) expect(at(value)).toBe(join(homedir(), ".local/share/ramet"));
  });
});

describe("makeUserFolder", () => {
  it("names the variable to set when the directory cannot be created", async () => {
    const directory = await mkdtemp(join(tmpdir(), "ramet-directory-"));
    try {
      await makeUserDirectory(join(directory, "a", "b"), "XDG_CACHE_HOME");
      await makeUserDirectory(join(directory, "a", "b"), "XDG_CACHE_HOME");
      await writeFile(join(directory, "file"), "");
      await chmod(join(directory, "file"), 0o400);
      await expect(makeUserDirectory(join(directory, "file", "b"), "XDG_CACHE_HOME")).rejects.toMatchObject({
        code: "Forbidden",
        message: expect.stringContaining(`Creating the directory ${join(directory, "file", "b")} failed`) as string,
        hint: expect.stringContaining("XDG_CACHE_HOME") as string,
      });
    } finally {
      await rm(directory, { recursive: true });
    }
  });
});
