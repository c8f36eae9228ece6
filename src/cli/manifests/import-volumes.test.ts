import { expect, it } from "vitest";
import { parseAllDocuments } from "yaml";
import { memoryIo } from "../../../test/setup/memory-io.ts";
import { runProgram } from "../program.ts";

async function run(...args: string[]) {
  const io = memoryIo();
  await runProgram(io, ["manifests", "--image", "ramet:1", "--cell-image", "ramet-cell:1", ...args]);
  return { stdout: io.written("stdout") };
}

it("lets the controllers import volumes only if that is requested", async () => {
  const createContents = (printed: string) =>
    parseAllDocuments(printed).some((document) => {
      const { kind, rules = [] } = document.toJS() as {
        kind: string;
        rules?: { resources?: string[]; verbs: string[] }[];
      };
      const isRight = ({ resources = [], verbs }: (typeof rules)[number]) =>
        resources.includes("volumesnapshotcontents") && verbs.some((verb) => verb === "create" || verb === "*");
      return kind === "ClusterRole" && rules.some(isRight);
    });
  const [without, with_] = [(await run()).stdout, (await run("--import-volumes")).stdout];
  expect([createContents(without), without.includes("--import-volumes")]).toEqual([false, false]);
  expect([createContents(with_), with_.includes("- --import-volumes\n")]).toEqual([true, true]);
  // The guard is installed in any case, and nobody has the verb.
  for (const printed of [without, with_]) {
    expect(printed).toContain("name: ramet-volume-imports");
    expect(printed).not.toMatch(/^ +- import$/m);
  }
});
