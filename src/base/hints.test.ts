import { globSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, it } from "vitest";

const root = join(import.meta.dirname, "../..");
const directories = ["src", "components", "provider", "policy"];
/** A string that is assigned to `hint`, or to a name that ends with `Hint`. */
const hintLiteral = /\b(?:hint|\w*Hint)\s*[:=]\s*("(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*'|`(?:[^`\\]|\\.)*`)/g;

it("finds no hint that ends with a full stop, because RametError.describe continues the sentence", () => {
  const hints = globSync(`{${directories.join(",")}}/**/*.ts`, { cwd: root })
    .filter((file) => !file.endsWith(".test.ts"))
    .flatMap((file) =>
      [...readFileSync(join(root, file), "utf8").matchAll(hintLiteral)].map(([, text = ""]) => `${file}: ${text}`),
    );
  expect(hints.length).toBeGreaterThan(100);
  expect(hints.filter((hint) => /\.["'`]$/.test(hint))).toEqual([]);
});
