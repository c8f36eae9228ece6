import { execFile } from "node:child_process";
import { cp, mkdir, mkdtemp, readdir, rm, symlink } from "node:fs/promises";
import { tmpdir } from "node:os";
import { delimiter, join } from "node:path";
import { promisify } from "node:util";
import { afterAll, beforeAll, describe, expect, it } from "vitest";

const run = promisify(execFile);
const root = join(import.meta.dirname, "../..");
/** A module that makes this Node report an old version. A stand-in for an old Node: does not prove that one can parse the files. */
const pretendOld = `data:text/javascript,${encodeURIComponent(
  'Object.defineProperty(process, "versions", { value: { ...process.versions, node: "18.20.4" } });',
)}`;

interface OldNode {
  command: string;
  options: string[];
  version: string;
}

/** The package as npm installs it for users: without the `node` package of its development. */
let installed: string;
let nodes: OldNode[];

beforeAll(async () => {
  installed = join(await mkdtemp(join(tmpdir(), "ramet-old-node-")), "node_modules/ramet");
  await mkdir(installed, { recursive: true });
  for (const part of ["bin", "package.json"]) await cp(join(root, part), join(installed, part), { recursive: true });
  await symlink(join(root, "dist"), join(installed, "dist"));
  await cp(join(root, "examples/local"), join(installed, "../../program"), {
    recursive: true,
    filter: (path) => !path.endsWith("node_modules"),
  });
  nodes = [{ command: process.execPath, options: ["--import", pretendOld], version: "18.20.4" }, ...(await oldNodes())];
});

afterAll(() => rm(join(installed, "../.."), { recursive: true, force: true }));

/** Returns the Nodes of the PATH that are too old for Ramet, but can run its ES modules. */
async function oldNodes(): Promise<OldNode[]> {
  const found: OldNode[] = [];
  for (const directory of new Set((process.env["PATH"] ?? "").split(delimiter))) {
    const command = join(directory, "node");
    const version = await run(command, ["--version"]).then(
      ({ stdout }) => stdout.trim().slice(1),
      () => "",
    );
    const [major = 0, minor = 0] = version.split(".").map(Number);
    if (major >= 16 && (major < 22 || (major === 22 && minor < 19))) found.push({ command, options: [], version });
  }
  return found;
}

async function failure({ command, options }: OldNode, args: string[]): Promise<string> {
  const error: unknown = await run(command, [...options, ...args], { cwd: join(installed, "../../program") }).then(
    () => undefined,
    (thrown: unknown) => thrown,
  );
  return (error as { stderr?: string } | undefined)?.stderr ?? "it did not fail";
}

describe("an old version of Node", () => {
  const sentence = (version: string) => `ramet needs Node.js 22.19 or newer; this is ${version}`;

  it("is named by the command ramet, in one sentence", async () => {
    for (const node of nodes) {
      const stderr = await failure(node, [join(installed, "bin/ramet.mjs"), "--version"]);
      expect(stderr).toBe(`${sentence(node.version)}\n`);
    }
  });

  it("is named by the programs of the examples", async () => {
    for (const node of nodes) expect(await failure(node, ["main.mjs"])).toContain(sentence(node.version));
    const programs = await readdir(join(root, "examples"), { recursive: true });
    const started = programs.filter((path) => path.endsWith("/index.ts")).map((path) => join(path, "../main.mjs"));
    expect(programs).toEqual(expect.arrayContaining(started));
  });

  it.each([
    "ramet",
    "ramet/api",
    "ramet/policy",
    "ramet/provider/api-key",
    "ramet/provider/named-snapshot",
    "ramet/provider/sandbox-clone",
  ])("is named by the import of %s", async (name) => {
    for (const node of nodes) {
      const program = `import(${JSON.stringify(name)}).catch((error) => { console.error(error.stack); process.exit(1); })`;
      expect(await failure(node, ["-e", program])).toBe(`${sentence(node.version)}\n`);
    }
  });

  it("is an error whose message alone Pulumi prints", async () => {
    const program = `import("ramet").catch((error) => { console.error(error.__pulumiRunError); process.exit(1); })`;
    expect(await failure(nodes[0]!, ["-e", program])).toBe("true\n");
  });
});
