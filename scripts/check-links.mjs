// Checks the Markdown files in git: relative links and anchors must have a target, and table cells must be short enough to read.
import { execFileSync } from "node:child_process";
import { existsSync, readFileSync, statSync } from "node:fs";
import { dirname, join, relative } from "node:path";
import { fileURLToPath } from "node:url";

const longestCell = 80;
const root = fileURLToPath(new URL("..", import.meta.url));
const pages = execFileSync("git", ["ls-files", "*.md"], { cwd: root, encoding: "utf8" }).split("\n").filter(Boolean);
const problems = pages
  .filter((page) => existsSync(join(root, page)))
  .flatMap((page) => [...brokenLinks(page), ...longCells(page)]);
for (const problem of problems) console.error(problem);
process.exitCode = problems.length > 0 ? 1 : 0;

function brokenLinks(page) {
  return linesOf(page).flatMap(({ text, number }) =>
    [...text.matchAll(/\]\(([^)\s]+)\)|(?:src|href)="([^"]+)"/g)]
      .map((match) => match[1] ?? match[2] ?? "")
      .filter((target) => !/^[a-z]+:/.test(target) && !exists(page, target))
      .map((target) => `${page}:${number}: broken link: ${target}`),
  );
}

function exists(page, target) {
  const [path = "", anchor] = target.split("#");
  const file = path === "" ? join(root, page) : join(root, dirname(page), path);
  if (!existsSync(file)) return false;
  return anchor === undefined || (statSync(file).isFile() && anchorsOf(relative(root, file)).has(anchor));
}

/** The anchors that GitHub generates from a page's headings. */
function anchorsOf(page) {
  const anchors = new Set();
  for (const { text } of linesOf(page)) {
    const heading = /^#{1,6}\s+(.*)$/.exec(text)?.[1];
    if (heading === undefined) continue;
    const anchor = withoutLinks(heading)
      .toLowerCase()
      .replaceAll(/[^\p{L}\p{N}\s_-]/gu, "")
      .trim()
      .replaceAll(" ", "-");
    for (let n = 0; ; n++) {
      const unique = n === 0 ? anchor : `${anchor}-${n}`;
      if (anchors.has(unique)) continue;
      anchors.add(unique);
      break;
    }
  }
  return anchors;
}

function longCells(page) {
  return linesOf(page)
    .filter(({ text }) => text.startsWith("|"))
    .flatMap(({ text, number }) =>
      text
        .split(/(?<!\\)\|/)
        .map((cell) => withoutLinks(cell.trim()))
        .filter((cell) => cell.length > longestCell && !/^[-:]+$/.test(cell))
        .map(
          (cell) => `${page}:${number}: a table cell has ${cell.length} characters, more than ${longestCell}: ${cell}`,
        ),
    );
}

function withoutLinks(text) {
  return text.replaceAll(/!?\[([^\]]*)\]\([^)]*\)/g, "$1");
}

/** A page's lines outside of code blocks. */
function linesOf(page) {
  let inCode = false;
  return readFileSync(join(root, page), "utf8")
    .split("\n")
    .map((text, index) => {
      const fence = /^\s*```/.test(text);
      if (fence) inCode = !inCode;
      return { text: fence || inCode ? "" : text, number: index + 1 };
    });
}
