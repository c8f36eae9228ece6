// Prints the size of the code base: files and lines of the shipped TypeScript, and words of the documentation.
import { execFileSync } from "node:child_process";
import { readFileSync } from "node:fs";

const tracked = execFileSync("git", ["ls-files"], { encoding: "utf8" }).trim().split("\n");
const text = (path) => readFileSync(path, "utf8");
const code = tracked.filter(
  (path) => /^(src|components|provider|policy)\/.*\.ts$/.test(path) && !path.endsWith(".test.ts"),
);
const sizes = code.map((path) => ({ path, lines: text(path).split("\n").length - 1 }));
sizes.sort((a, b) => a.lines - b.lines);
const at = (share) => sizes[Math.min(sizes.length - 1, Math.floor(sizes.length * share))].lines;
const longest = sizes.at(-1);
const words = (paths) => paths.reduce((sum, path) => sum + text(path).split(/\s+/).filter(Boolean).length, 0);
const pages = tracked.filter((path) => /^(docs\/.*|[A-Z]+)\.md$/.test(path));
const generated = pages.filter((path) => text(path).startsWith("<!-- Made by"));

console.log(`production files   ${code.length}`);
console.log(`lines              ${sizes.reduce((sum, { lines }) => sum + lines, 0)}`);
console.log(`median, p95        ${at(0.5)}, ${at(0.95)}`);
console.log(`longest            ${longest.lines} ${longest.path}`);
console.log(`documentation      ${pages.length} pages, ${words(pages)} words, of which generated ${words(generated)}`);
