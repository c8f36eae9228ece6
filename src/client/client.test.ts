import { build } from "esbuild";
import { expect, it } from "vitest";

const mostBytes = 20 * 1024;

it("is one small file for every environment, without imports", async () => {
  const { outputFiles, metafile } = await build({
    entryPoints: ["src/client/index.ts"],
    bundle: true,
    // An import of a module of Node fails the build.
    platform: "neutral",
    format: "esm",
    target: "es2022",
    minify: true,
    write: false,
    metafile: true,
  });
  expect(outputFiles[0]?.contents.length).toBeLessThanOrEqual(mostBytes);
  expect(Object.keys(metafile.inputs).filter((path) => !path.startsWith("src/client/"))).toEqual([]);
});
