// Bundles the programs into dist/. Run by `npm ci` (as `prepare`) and `npm run build`.
import { rmSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const root = dirname(dirname(fileURLToPath(import.meta.url)));

/** @type {import("esbuild").BuildOptions} */
const shared = {
  absWorkingDir: root,
  bundle: true,
  platform: "node",
  format: "esm",
  target: "node22.19",
  sourcemap: true,
  logLevel: "warning",
};

/** @type {import("esbuild").BuildOptions[]} */
const programs = [
  // Its packages are installed beside it.
  // Split, so that a command loads only what it needs.
  { entryPoints: [{ in: "src/cli/main.ts", out: "ramet" }], outdir: "dist", splitting: true, packages: "external" },
  // It starts once per sandbox and also in images where nothing is installed: one small file.
  {
    entryPoints: ["src/cell/main.ts"],
    outfile: "dist/cell.js",
    minifySyntax: true,
    minifyWhitespace: true,
    legalComments: "none",
    // Packages that are CommonJS ask for Node's modules with `require`, which an ES module does not have.
    banner: {
      js: "import { createRequire as ___createRequire } from 'node:module'; const require = ___createRequire(import.meta.url);",
    },
  },
  { entryPoints: ["src/index.ts"], outfile: "dist/index.js", packages: "external" },
];

const esbuild = await import("esbuild").catch(() => undefined);
if (esbuild === undefined) {
  // As after `npm ci --omit=dev`, where a package that was published brings its dist.
  console.error("dist/ was not built: esbuild, a development dependency, is not installed.");
  process.exit();
}
rmSync(join(root, "dist"), { recursive: true, force: true });
await Promise.all(programs.map((program) => esbuild.build({ ...shared, ...program })));
