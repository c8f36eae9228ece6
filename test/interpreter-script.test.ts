import { constants, runInThisContext } from "node:vm";
import { expect, it } from "vitest";

/** A file of the image, which is JavaScript. */
const file: string = "../images/code-interpreter/code_interpreter/node_script.mjs";
const { asScript } = (await import(file)) as { asScript: (code: string) => string };

/** As the JavaScript kernel does. */
const run = (code: string): unknown =>
  runInThisContext(asScript(code), { importModuleDynamically: constants.USE_MAIN_CONTEXT_DEFAULT_LOADER });

it.each<[code: string, value: unknown]>([
  ["const scriptA = 1; scriptA + 1", 2],
  ["let { a: scriptB, ...scriptC } = { a: 1, b: [2] }; [scriptB, scriptC]", [1, { b: [2] }]],
  ["const [scriptD = 3, , scriptE] = [undefined, 0, 4]; scriptD + scriptE", 7],
  ["scriptF(); function scriptF() { return 5 }", 5],
  ["class ScriptG { x = 6 }; new ScriptG().x", 6],
  ["import { basename as scriptH } from 'node:path'; scriptH('/a/b')", "b"],
  ["import scriptI, * as scriptJ from 'node:path'; scriptI === scriptJ.default", true],
  ["await Promise.resolve(7)", 7],
  ["const scriptK = await Promise.resolve(8)", undefined],
  ["export const scriptL = 9; scriptL", 9],
  ["for (const each of [1, 2]) each", 2],
  ["var scriptM; scriptM ?? 'none'", "none"],
  ["// only a comment", undefined],
])("runs %j, again and again", async (code, value) => {
  for (const round of ["first", "second"]) expect(await run(code), round).toEqual(value);
});

it("keeps what was declared for the next code", async () => {
  await run("const scriptKept = await Promise.resolve([1])");
  expect(run("scriptKept.push(2); scriptKept")).toEqual([1, 2]);
});

it("leaves code that cannot be parsed to the one who runs it", () => {
  expect(() => run("syntax error")).toThrow("Unexpected identifier 'error'");
});
