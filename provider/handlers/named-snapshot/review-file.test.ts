import { execFile } from "node:child_process";
import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { expect, it, onTestFinished } from "vitest";

it("keeps the headings once and the rows of all processes that append at the same time", async () => {
  const directory = await mkdtemp(join(tmpdir(), "ramet-review-"));
  onTestFinished(() => rm(directory, { recursive: true }));
  const [files, writers] = [300, ["a", "b", "c"]];
  const program = `import(${JSON.stringify(join(import.meta.dirname, "review-file.ts"))}).then(({ appendBelow }) => {
    for (let file = 0; file < ${files}; file += 1)
      appendBelow(process.argv[1] + "/" + file, "headings\\n", "row of " + process.argv[2] + "\\n");
  })`;
  await Promise.all(
    writers.map((name) => promisify(execFile)(process.execPath, ["--no-warnings", "-e", program, directory, name])),
  );
  const whole = ["headings", ...writers.map((name) => `row of ${name}`)];
  for (let file = 0; file < files; file += 1) {
    const lines = (await readFile(join(directory, String(file)), "utf8")).trimEnd().split("\n");
    expect(lines.toSorted()).toEqual(whole);
  }
});
