import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, it } from "vitest";
import { packageRoot } from "../tools/tool.ts";
import { interpreterConfig } from "./interpreter-image.ts";

it("has the same configuration as the image of the Dockerfile", async () => {
  const dockerfile = await readFile(join(packageRoot(), "images", "code-interpreter", "Dockerfile"), "utf8");
  const instructions = (name: string): string[] =>
    dockerfile.split("\n").flatMap((line) => (line.startsWith(`${name} `) ? [line.slice(name.length + 1)] : []));
  expect({
    cmd: JSON.parse(instructions("CMD")[0] ?? "") as unknown,
    env: instructions("ENV"),
    workingDir: instructions("WORKDIR")[0],
  }).toEqual(interpreterConfig);
});

it("names each package with its exact version and a digest", async () => {
  const file = join(packageRoot(), "images", "code-interpreter", "requirements.txt");
  const packages = (await readFile(file, "utf8")).split(/\n(?=\S)/).filter((part) => !part.startsWith("#"));
  expect(packages.length).toBeGreaterThan(40);
  for (const each of packages.map((part) => part.trim()))
    expect(each).toMatch(/^[a-z0-9-]+==\S+( \\\n +--hash=sha256:[0-9a-f]{64}){1,2}$/);
});
