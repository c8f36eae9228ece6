// Writes docs/errors.md from src/base/error-codes.ts; with --check it only says whether the page is up to date.
import { readFile, writeFile } from "node:fs/promises";
import { errorCodes } from "../src/base/error-codes.ts";

const page = new URL("../docs/errors.md", import.meta.url);
const text = render();

if (!process.argv.includes("--check")) await writeFile(page, text);
else if ((await readFile(page, "utf8").catch(() => "")) !== text) {
  console.error("docs/errors.md is not up to date. Run: node scripts/generate-errors.mjs");
  process.exitCode = 1;
}

function render() {
  const rows = Object.entries(errorCodes).map(([code, meaning]) => `### ${code}\n\n${meaning}\n`);
  return `<!-- Made by scripts/generate-errors.mjs from src/base/error-codes.ts. -->

# Errors

Everything that fails in Ramet says what failed and why, what to do where that is known, and a code that stays the same
from release to release. You meet a code

- on the command line, as the last line of an error: \`[TemplateMismatch]\`. With \`-o json\`, stderr carries
  \`{"error": {"code", "message", "hint", "retryable"}}\`;
- in the status of a Sandbox or a Checkpoint: as the \`reason\` of a condition or at the end of a message;
- in the answers of a cell: \`{"code", "message", "hint", "retryable"}\`.

The command line ends with 2 after \`InvalidArgument\`, 3 after \`NotFound\`, 4 after \`Timeout\`, 130 after \`Canceled\` and 1
after every other code. When a sandbox or a checkpoint that it waited for has failed, it ends with 1 whatever the code is.

## Codes

${rows.join("\n")}`;
}
