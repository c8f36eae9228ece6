import { build, type BuildOptions } from "esbuild";
import { expect, it } from "vitest";

const mostBytes = 20 * 1024;

const built = (options: BuildOptions) =>
  build({
    entryPoints: ["src/client/index.ts"],
    bundle: true,
    // An import of a module of Node fails the build.
    platform: "neutral",
    format: "esm",
    write: false,
    ...options,
  });

it("is one small file for every environment, without imports", async () => {
  const { outputFiles, metafile } = await built({ target: "es2022", minify: true, metafile: true });
  expect(outputFiles?.[0]?.contents.length).toBeLessThanOrEqual(mostBytes);
  expect(Object.keys(metafile?.inputs ?? {}).filter((path) => !path.startsWith("src/client/"))).toEqual([]);
});

it("has no syntax that is newer than Node 20", async () => {
  const texts = await Promise.all(
    ["esnext", "node20.0"].map(async (target) => (await built({ target })).outputFiles?.[0]?.text),
  );
  expect(texts[0]).toBe(texts[1]);
});
