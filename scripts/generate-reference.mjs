// Writes docs/reference/ from the exports of components/; with --check it only reports whether the pages are up to date.
import { mkdir, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { format, resolveConfig } from "prettier";
import { readComponents } from "./reference-types.mjs";

const root = fileURLToPath(new URL("..", import.meta.url));
const directory = join(root, "docs/reference");
const { resources, types, callables } = readComponents(root);
const pages = new Map([
  ["README.md", renderIndex()],
  ...resources.map((resource) => [pageOf(resource.name), renderResource(resource)]),
  ["recipe.md", renderRecipe()],
]);

const others = [];
for (const name of await readdir(directory).catch(() => [])) {
  if (pages.has(name)) continue;
  // Keep hand-written pages.
  if ((await readFile(join(directory, name), "utf8")).startsWith("<!-- Made by scripts/generate-reference.mjs"))
    others.push(name);
}
const stale = [];
for (const [name, text] of pages) {
  const path = join(directory, name);
  const wanted = await format(text, { ...(await resolveConfig(path)), parser: "markdown" });
  if ((await readFile(path, "utf8").catch(() => "")) === wanted) continue;
  stale.push(name);
  if (process.argv.includes("--check")) continue;
  await mkdir(directory, { recursive: true });
  await writeFile(path, wanted);
}
if (process.argv.includes("--check")) {
  if (stale.length + others.length > 0) {
    console.error(
      `docs/reference is not up to date: ${[...stale, ...others].join(", ")}. Run: node scripts/generate-reference.mjs`,
    );
    process.exitCode = 1;
  }
} else for (const name of others) await rm(join(directory, name));

function renderIndex() {
  const items = [...resources].map(({ name, doc }) => `- [${name}](${pageOf(name)}): ${firstSentence(doc)}`);
  return `${made("components/")}

# Pulumi resources

The resources and functions that a program imports from \`ramet\`. [Declare it with Pulumi](../tasks/pulumi.md) shows how it is used.

${items.join("\n")}

These [functions](recipe.md) create the steps of a recipe: ${callables.map(({ name }) => `\`${name}\``).join(", ")}.

Arguments are values or outputs of other resources. Those that are marked _plain_ must be values that the program knows.
`;
}

function renderResource({ name, doc, file, constructor, token, args, outputs, types: named }) {
  return `${made(file)}

# ${name}

${doc}

\`\`\`ts
${constructor}
\`\`\`

Type token: \`${token}\`.

## Arguments

${fieldList(args)}

## Outputs

${fieldList(outputs, { areOutputs: true })}

${typeSections(named, new Set([`${name}Args`]))}`;
}

function renderRecipe() {
  const sections = callables.map(
    ({ name, doc, signatures }) => `## ${name}\n\n\`\`\`ts\n${signatures.join("\n")}\n\`\`\`\n\n${doc}\n`,
  );
  return `${made("components/recipe.ts")}

# Recipe steps

\`recipe\` of a [NamedSnapshot](${pageOf("NamedSnapshot")}) is a list of steps. These functions create them.

${sections.join("\n")}
${typeSections(
  callables.flatMap((callable) => callable.types),
  new Set(["RecipeStepArgs"]),
)}`;
}

/** Renders each named type and the types that it names once. Recipe steps have their own page. */
function typeSections(names, done) {
  return [...new Set(names)]
    .map((name) => {
      const type = types.get(name);
      if (type === undefined || done.has(name) || name === "RecipeStepArgs") return "";
      done.add(name);
      const body = type.fields === undefined ? `\`\`\`ts\n${type.text}\n\`\`\`` : fieldList(type.fields);
      return `## ${name}\n\n${type.doc}\n\n${body}\n\n${typeSections(type.types, done)}`;
    })
    .join("");
}

/** Renders a list, because the descriptions are too long for table cells. */
function fieldList(fields, { areOutputs = false } = {}) {
  if (fields.length === 0) return "None.\n";
  const items = fields.map(({ name, type, optional, isPlain, doc, default: standard }) => {
    const notes = [
      typeText(type),
      ...(optional || areOutputs ? [] : ["**required**"]),
      ...(isPlain && !areOutputs && !namesResource(type) ? ["_plain_"] : []),
      ...(standard === undefined ? [] : [`default: ${standard}`]),
    ];
    return `- **\`${name}\`**: ${notes.join(", ")}${doc === "" ? "" : `\\\n  ${doc}`}`;
  });
  return `${items.join("\n")}\n`;
}

/** Links the name of a resource to its page. */
function typeText(type) {
  const links = namesIn(type)
    .filter((name) => namesResource(name) || name === "RecipeStepArgs")
    .map((name) => ` ([${name === "RecipeStepArgs" ? "steps" : name}](${pageOf(name)}))`);
  return `\`${type}\`${links.join("")}`;
}

function namesResource(type) {
  return namesIn(type).some((name) => resources.some((resource) => resource.name === name));
}

function namesIn(type) {
  return type.split(" | ").map((part) => part.replace(/\[\]$/, ""));
}

function firstSentence(doc) {
  return /^.*?\.(?= |$)/.exec(doc)?.[0] ?? doc;
}

function pageOf(name) {
  return name === "RecipeStepArgs" ? "recipe.md" : `${name.replaceAll(/(?<=[a-z])(?=[A-Z])/g, "-").toLowerCase()}.md`;
}

function made(from) {
  return `<!-- Made by scripts/generate-reference.mjs from ${from}. -->`;
}
