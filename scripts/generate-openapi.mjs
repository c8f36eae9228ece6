// Writes the OpenAPI documents of the client API from its tables of routes; with --check it only reports whether they are up to date.
import { readFile, writeFile } from "node:fs/promises";
import { agentTierDocument } from "../src/client-api/dialects/agenttier/routes.ts";
import { e2bDocument } from "../src/client-api/dialects/e2b/routes.ts";
import { nativeDocument } from "../src/client-api/dialects/native/routes.ts";
import { sandbox0Document } from "../src/client-api/dialects/sandbox0/routes.ts";

const documents = {
  "agenttier-openapi.json": agentTierDocument(),
  "e2b-openapi.json": e2bDocument(),
  "native-openapi.json": nativeDocument(),
  "sandbox0-openapi.json": sandbox0Document(),
};

for (const [name, document] of Object.entries(documents)) {
  const path = new URL(`../docs/reference/${name}`, import.meta.url);
  const text = `${JSON.stringify(document, undefined, 2)}\n`;
  if (!process.argv.includes("--check")) await writeFile(path, text);
  else if ((await readFile(path, "utf8").catch(() => "")) !== text) {
    console.error(`docs/reference/${name} is not up to date. Run: node scripts/generate-openapi.mjs`);
    process.exitCode = 1;
  }
}
