import { execFile } from "node:child_process";
import { mkdir, mkdtemp, realpath, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { afterAll, beforeAll, expect, it } from "vitest";
import packageJson from "../../package.json" with { type: "json" };
import type { RunResult } from "../engine/engine.ts";
import { chosenEngine } from "./program-world.ts";
import { hasPnpm, installAsNpm, installWithPnpm, packPackage } from "./installed-package.ts";
import { providerTexts } from "./provider-texts.ts";

/** The published package in programs of each module system. The programs are only previewed, without a cluster. */
let home: string;
let tarball: string;

beforeAll(async () => {
  home = await mkdtemp(join(tmpdir(), "ramet-imports-"));
  tarball = await packPackage(home);
  await writeFile(join(home, "kubeconfig"), unreachableKubeconfig);
});

afterAll(() => rm(home, { recursive: true, force: true }));

it("is required by a CommonJS program", async () => {
  const program = await write("cjs", { "index.js": asRequires(text) }, { main: "index.js" });
  await installAsNpm(tarball, program);
  expectSame(await preview(program));
});

it("is imported by an ES module program in TypeScript that Node runs directly", async () => {
  const program = await write("esm", { "index.ts": text }, { main: "index.ts", type: "module" });
  await installAsNpm(tarball, program);
  expectSame(await preview(program));
});

it("is imported by a program that ts-node compiles and type-checks", async () => {
  // What templates of older Pulumi projects have. It does not read "exports".
  const compilerOptions = {
    strict: true,
    module: "commonjs",
    target: "es2022",
    moduleResolution: "node",
    ignoreDeprecations: "6.0",
    skipLibCheck: true,
  };
  const files = { "index.ts": text, "tsconfig.json": JSON.stringify({ compilerOptions }) };
  const program = await write("ts-node", files, { main: "index.ts" });
  await installAsNpm(tarball, program);
  expectSame(await preview(program, { typescript: true }));
  const wrong = await write(
    "wrong",
    { "index.ts": text.replace("replicas: 2", 'replicas: "two"') },
    { main: "index.ts" },
  );
  await installAsNpm(tarball, wrong);
  const refused = await preview(wrong, { typescript: true });
  expect(refused.succeeded).toBe(false);
  expect(refused.text).toMatch(/'string' is not assignable to type 'Input<number>'/);
});

it("is found by a program and by the process for dynamic resources if pnpm installed it", async (context) => {
  if (!(await hasPnpm())) context.skip("pnpm is unavailable: no registry is reachable");
  const dependencies = { ramet: `file:${tarball}`, ...pulumi };
  const program = await write("pnpm", { "index.js": asRequires(text) }, { main: "index.js", dependencies });
  await installWithPnpm(program);
  expect(await realpath(join(program, "node_modules/ramet"))).toMatch(/node_modules\/\.pnpm\//);
  expectSame(await preview(program));
});

it("runs its command with npx where npm installed the tarball, without the repository", async (context) => {
  if (!(await hasPnpm())) context.skip("npm cannot install: no registry is reachable");
  const machine = await write("machine", {}, {});
  const npm = (command: string, ...args: string[]) =>
    promisify(execFile)(command, args, { cwd: machine, timeout: 200_000, maxBuffer: 16 * 1024 ** 2 });
  await npm("npm", "install", "--omit=peer", "--no-audit", "--no-fund", "--ignore-scripts", tarball);
  const { version } = packageJson;
  expect((await npm("npx", "--no-install", "ramet", "--version")).stdout).toContain(version);
  const images = ["--image", `registry.example/ramet:${version}`, "--cell-image", "registry.example/cell:1"];
  const { stdout } = await npm("npx", "--no-install", "ramet", "manifests", ...images, "--store", "s3://checkpoints");
  expect(stdout).toContain(`image: registry.example/ramet:${version}`);
});

const text = `
import { copy, NamedSnapshot, run, SandboxClone, SandboxSet, SandboxTemplate } from "ramet";
const python = new SandboxTemplate("python", { image: "python" });
const data = new NamedSnapshot("data", { from: python, recipe: [copy("./a.txt", "/a.txt"), run("wc -c /a.txt")] });
const pool = new SandboxSet("pool", { from: data, replicas: 2 });
const dev = new SandboxClone("dev", { from: data, lifetime: "8 hours" });
export const digest = data.digest;
export const names = [pool.name, dev.name];
`;

/** The same program as CommonJS. */
function asRequires(program: string): string {
  return program
    .replace(/^import (.*) from "(.*)";$/m, 'const $1 = require("$2");')
    .replaceAll(/^export const (\w+) = /gm, "exports.$1 = ");
}

const { devDependencies } = packageJson;
const pulumi = {
  "@pulumi/pulumi": devDependencies["@pulumi/pulumi"],
  "@pulumi/kubernetes": devDependencies["@pulumi/kubernetes"],
};

async function write(name: string, files: Record<string, string>, description: object): Promise<string> {
  const directory = join(home, name, "program");
  await mkdir(directory, { recursive: true });
  await writeFile(join(directory, "package.json"), JSON.stringify({ name, private: true, ...description }));
  for (const [path, content] of Object.entries({ "a.txt": "a\n", ...files }))
    await writeFile(join(directory, path), content);
  return directory;
}

async function preview(program: string, options: { typescript?: boolean } = {}): Promise<RunResult> {
  const kubeconfig = join(home, "kubeconfig");
  const stack = { project: "program", stack: "test", passphrase: "a passphrase" };
  const engine = await chosenEngine({ program, stateDirectory: home, kubeconfig, ...stack, ...options });
  return engine.preview();
}

let digest: unknown;

/** Programs of all module systems load the same file and declare the same resources. */
function expectSame({ succeeded, outputs, steps, text: printed }: RunResult): void {
  expect(printed).not.toMatch(/error/i);
  expect(succeeded).toBe(true);
  expect(outputs).toMatchObject({ digest: expect.stringMatching(/^sha256:/) as string, names: ["pool", "dev"] });
  digest ??= outputs["digest"];
  expect(outputs["digest"]).toBe(digest);
  const texts = steps.flatMap(({ inputs }) => inputs["__provider"] ?? []);
  const { namedSnapshot, readiness, sandboxClone } = providerTexts;
  expect(texts.toSorted()).toEqual([namedSnapshot, readiness, sandboxClone]);
}

/** Nothing listens on this port. */
const unreachableKubeconfig = `
apiVersion: v1
kind: Config
current-context: nobody
contexts: [{ name: nobody, context: { cluster: nobody, user: nobody } }]
clusters: [{ name: nobody, cluster: { server: "https://127.0.0.1:9" } }]
users: [{ name: nobody, user: { token: nobody } }]
`;
