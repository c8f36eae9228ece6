// Checks what docs/security.md and docs/reference/supply-chain.md promise: each test that the threat model names exists, and
// image bases and actions are pinned by digest or commit.
import { execFileSync } from "node:child_process";
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

const root = fileURLToPath(new URL("..", import.meta.url));
const read = (path) => readFileSync(join(root, path), "utf8");
const tracked = (...patterns) =>
  execFileSync("git", ["ls-files", "--cached", "--others", "--exclude-standard", ...patterns], {
    cwd: root,
    encoding: "utf8",
  })
    .split("\n")
    .filter((path) => path !== "" && existsSync(join(root, path)));

const problems = [
  ...missingTests("docs/security.md", "docs/reference/security-tests.json"),
  ...unpinnedBases(),
  ...unpinnedActions(),
];
for (const problem of problems) console.error(problem);
process.exitCode = problems.length > 0 ? 1 : 0;

/** The list has the titles of tests by file and id: `{"test/hostile/gateway.test.ts": {"T1": "title of the test"}}`. */
function missingTests(page, list) {
  const named = new Set();
  const found = [];
  for (const [file, tests] of Object.entries(JSON.parse(read(list)))) {
    const source = existsSync(join(root, file)) ? read(file) : undefined;
    if (source === undefined) found.push(`${list}: ${file} does not exist`);
    for (const [id, title] of Object.entries(tests)) {
      if (named.has(id)) found.push(`${list}: ${id} is used twice`);
      named.add(id);
      if (source === undefined || !hasTest(source, title)) found.push(`${list}: ${id}: ${file} has no test "${title}"`);
    }
  }
  return [...found, ...wrongReferences(page, named)];
}

/** The title of a TypeScript test, or the function of a Go test. */
function hasTest(source, title) {
  if (/^Test\w+$/.test(title)) return new RegExp(`^func ${title}\\(`, "m").test(source);
  const escaped = title.replaceAll(/[.*+?^${}()|[\]\\]/g, "\\$&");
  return new RegExp(`\\(\\s*(["'\`])${escaped}\\1`).test(source);
}

/** Each reference must be to a test in the list, and each of these must be referenced. */
function wrongReferences(page, named) {
  const referenced = new Set(read(page).match(/\bT\d+\b/g) ?? []);
  return [
    ...[...referenced].filter((id) => !named.has(id)).map((id) => `${page}: ${id} has no entry in the list of tests`),
    ...[...named].filter((id) => !referenced.has(id)).map((id) => `${page}: no threat refers to ${id}`),
  ];
}

function unpinnedBases() {
  return tracked("*Dockerfile*").flatMap((path) => {
    if (path.endsWith(".dockerignore")) return [];
    const source = read(path);
    const stages = new Set([...source.matchAll(/^FROM .* AS (\S+)$/gim)].map((match) => match[1]));
    const bases = [...source.matchAll(/^FROM (?:--\S+ )*(\S+)/gim)].map((match) => match[1] ?? "");
    return bases
      .filter((base) => !stages.has(base))
      .map((base) => {
        const variable = /^\$\{(\w+)\}$/.exec(base)?.[1];
        return variable === undefined ? base : (new RegExp(`^ARG ${variable}=(\\S+)`, "m").exec(source)?.[1] ?? base);
      })
      .filter((base) => !/@sha256:[0-9a-f]{64}$/.test(base))
      .map((base) => `${path}: the base ${base} is not pinned by digest`);
  });
}

function unpinnedActions() {
  return tracked("*.yaml", "*.yml").flatMap((path) =>
    [...read(path).matchAll(/^\s*(?:- )?uses: (\S+)/gm)]
      .map((match) => match[1] ?? "")
      .filter((action) => !action.startsWith("./") && !/@[0-9a-f]{40}$/.test(action))
      .map((action) => `${path}: the action ${action} is not pinned by commit`),
  );
}
