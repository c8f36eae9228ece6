// Bundles the programs into dist/. Run by `npm ci` (as `prepare`) and `npm run build`.
import { existsSync, globSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

import { requireNode } from "../bin/require-node.mjs";
import { thirdPartyNotices } from "./third-party-notices.mjs";

const root = dirname(dirname(fileURLToPath(import.meta.url)));
const { dependencies, peerDependencies, engines } = JSON.parse(readFileSync(join(root, "package.json"), "utf8"));

// What the commands load, bundled: Node needs a quarter of a command's CPU time to find and load the files of these packages.
const bundled = new Set(["commander", "undici", "ws", "yaml", "zod", "zod-openapi"]);
const installed = Object.keys({ ...dependencies, ...peerDependencies }).filter((name) => !bundled.has(name));

// Half a megabyte, which Azure's client needs only for a list format that Ramet does not use.
const neverLoaded = "apache-arrow";

/** @type {import("esbuild").BuildOptions} */
const shared = {
  absWorkingDir: root,
  bundle: true,
  platform: "node",
  format: "esm",
  target: "node22.19",
  sourcemap: true,
  // Stack traces need only names and lines. The sources of the clouds' clients are twice the size of the programs.
  sourcesContent: false,
  logLevel: "warning",
};

// CommonJS packages load Node's modules with `require`, which an ES module does not have.
const requireInModules = {
  js: "import { createRequire as ___createRequire } from 'node:module'; const require = ___createRequire(import.meta.url);",
};

// On a Node that is too old, a program that imports the package fails with one sentence.
const nodeCheck = `(${String(requireNode)})(${JSON.stringify(engines.node.replace(/^>=/, ""))}, process.versions.node);`;

/** @type {import("esbuild").BuildOptions[]} */
const programs = [
  // Its other packages are installed as dependencies, except the clouds' clients, which are bundled because few users need them.
  // Split, so that a command loads only what it needs.
  {
    entryPoints: [{ in: "src/cli/main.ts", out: "ramet" }],
    outdir: "dist",
    splitting: true,
    external: [...installed, neverLoaded].flatMap((name) => [name, `${name}/*`]),
    legalComments: "none",
    banner: requireInModules,
    metafile: true,
  },
  // Starts once per sandbox, also in images where no package is installed: one small file. Node loads CommonJS with less CPU
  // and memory than an ES module.
  {
    entryPoints: ["src/cell/main.ts"],
    outfile: "dist/cell.cjs",
    format: "cjs",
    minify: true,
    legalComments: "none",
    metafile: true,
  },
  { entryPoints: ["src/index.ts"], outfile: "dist/index.js", packages: "external", banner: { js: nodeCheck } },
  // For every environment with fetch: nothing of Node.
  {
    entryPoints: ["src/client/index.ts"],
    outfile: "dist/client.js",
    platform: "neutral",
    target: "es2022",
    minify: true,
    sourcemap: false,
  },
  // CommonJS, so that CommonJS and ES module programs load the same file: docs/decisions/0007.
  {
    entryPoints: [
      { in: "components/index.ts", out: "index" },
      { in: "policy/index.ts", out: "policy" },
      { in: "provider/api-key.ts", out: "provider/api-key" },
      { in: "provider/named-snapshot.ts", out: "provider/named-snapshot" },
      { in: "provider/readiness.ts", out: "provider/readiness" },
      { in: "provider/sandbox-clone.ts", out: "provider/sandbox-clone" },
    ],
    outdir: "dist/pulumi",
    format: "cjs",
    packages: "external",
    banner: { js: `"use strict"; ${nodeCheck}` },
    // Dynamic resources load these separate files at run time.
    external: ["ramet/*"],
    define: { "import.meta.dirname": "__dirname" },
  },
  // The components for the provider process, which loads them for programs in other languages.
  {
    entryPoints: ["components/construct.ts"],
    outfile: "dist/pulumi/construct.js",
    format: "cjs",
    packages: "external",
    minify: true,
    sourcemap: false,
    legalComments: "none",
    define: { "import.meta.dirname": "__dirname" },
  },
  // The provider process, also for programs in other languages: it brings Pulumi's protocol with it, in one file that loads fast.
  {
    entryPoints: ["provider/plugin/main.ts"],
    outfile: "dist/pulumi/plugin.js",
    format: "cjs",
    minify: true,
    sourcemap: false,
    legalComments: "none",
    banner: { js: `"use strict"; ${nodeCheck}` },
    define: { "import.meta.dirname": "__dirname" },
    metafile: true,
  },
];

const esbuild = await import("esbuild").catch(() => undefined);
if (esbuild === undefined) {
  // As after `npm ci --omit=dev`. A published package contains its dist.
  console.error("dist/ was not built: esbuild, a development dependency, is not installed.");
  process.exit();
}
// npm builds the types and the chart (prepack) before it runs this script (prepare). The CRDs are kept while their checksum matches.
const kept = new Set(["types", "pulumi", "pulumi/types", "external-snapshotter", "chart"]);
for (const path of globSync("{*,pulumi/*}", { cwd: join(root, "dist") })) {
  if (!kept.has(path)) rmSync(join(root, "dist", path), { recursive: true, force: true });
}
const built = await Promise.all(programs.map((program) => esbuild.build({ ...shared, ...program })));
writeFileSync(join(root, "dist/THIRD-PARTY-NOTICES.txt"), thirdPartyNotices(root, built));
writeFileSync(join(root, "dist/pulumi/package.json"), `${JSON.stringify({ type: "commonjs" })}\n`);

const { makeSnapshotCrds } = await import("./snapshot-crds.mjs");
const problem = makeSnapshotCrds();
if (problem !== undefined) {
  console.error(`Without the CRDs of external-snapshotter no SnapshotStack can install them: ${problem}`);
}

// A dynamic resource loads the package from its program's directory. The programs of this repository have not installed it.
const own = join(root, "node_modules/ramet");
if (existsSync(join(root, "node_modules")) && !existsSync(own)) symlinkSync("..", own, "dir");
