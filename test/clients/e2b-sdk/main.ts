// `npm run test:e2b-sdk -- /path/to/E2B`: runs the tests of E2B's own SDKs, unmodified, against a new local cluster, and prints a
// table. The checkout is of https://github.com/e2b-dev/E2B or https://github.com/e2b-dev/code-interpreter; what its tests need is
// installed into it.
import { mkdir, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { parseArgs } from "node:util";
import { setup as buildPackage } from "../../setup/built-package.ts";
import { withLocalNames } from "../local-names.ts";
import { readCheckout } from "./checkout.ts";
import { javascriptTests } from "./javascript.ts";
import { pythonTests } from "./python.ts";
import { formatReport, type TestResult } from "./report.ts";
import { openSdkWorld } from "./sdk-world.ts";

const languages = { javascript: javascriptTests, python: pythonTests };

async function main(args: readonly string[]): Promise<number> {
  const { values, positionals } = parseArgs({
    args: [...args],
    allowPositionals: true,
    options: { only: { type: "string" }, output: { type: "string", default: join(tmpdir(), "e2b-sdk-results") } },
  });
  const [path, ...files] = positionals;
  if (path === undefined) {
    console.error("usage: npm run test:e2b-sdk -- CHECKOUT [FILE…] [--only javascript|python] [--output DIRECTORY]");
    return 2;
  }
  const checkout = await readCheckout(resolve(path));
  const output = resolve(values.output);
  await mkdir(output, { recursive: true });
  buildPackage();
  const through = await withLocalNames();
  const world = await openSdkWorld(through, checkout.kind);
  const results: TestResult[] = [];
  try {
    for (const [language, run] of Object.entries(languages)) {
      if (values.only !== undefined && values.only !== language) continue;
      const { environment } = world;
      results.push(...(await run({ checkout, through, environment, files, output })));
    }
  } finally {
    await world.close();
  }
  const report = formatReport(results);
  await writeFile(join(output, "report.md"), report);
  console.log(report);
  return results.some(({ outcome }) => outcome === "failed") ? 1 : 0;
}

process.exitCode = await main(process.argv.slice(2));
