import { Sandbox } from "@e2b/code-interpreter";
import { afterAll, beforeAll, expect, it } from "vitest";
import { ClientWorld } from "./client-world.ts";

/** Random numbers of kernels and programs, in clones of one snapshot. */
let world: ClientWorld;
let all: Sandbox[];

const server = `
import http from "node:http"; import crypto from "node:crypto";
const draw = () => [crypto.randomUUID(), crypto.randomBytes(8).toString("hex"), crypto.getRandomValues(new Uint32Array(2)).join(),
  crypto.randomInt(2 ** 32), Math.random()];
draw();
http.createServer((_, answer) => answer.end(JSON.stringify(draw()))).listen(process.argv[2]);
`;

beforeAll(async () => {
  world = await ClientWorld.shared("interpreter-random");
  const options = await world.connection();
  const source = await Sandbox.create("code-interpreter-v1", options);
  await source.runCode(
    "import numpy, random, ssl, tempfile, uuid; random.random(); ssl.RAND_bytes(1); tempfile.mktemp()",
  );
  for (const language of ["js", "bash"]) await source.runCode("", { language });
  await source.files.write("/tmp/server.mjs", server);
  await source.commands.run("node /tmp/server.mjs 8000", { background: true, timeoutMs: 0 });
  // The kernel has the variables of the image, not those of a login shell.
  await source.runCode("import subprocess; subprocess.Popen(['node', '/tmp/server.mjs', '8001'])");
  for (const port of [8000, 8001]) {
    await source.commands.run(`curl -s --retry 20 --retry-delay 1 --retry-connrefused http://127.0.0.1:${port}`);
  }
  const { snapshotId } = await source.createSnapshot();
  all = [source, await Sandbox.create(snapshotId, options), await Sandbox.create(snapshotId, options)];
});
afterAll(async () => {
  for (const each of all) await each.kill();
  await world.close();
});

it.each([
  ["python", "random.random()"],
  ["python", "numpy.random.random()"],
  ["python", "str(uuid.uuid4())"],
  ["python", "ssl.RAND_bytes(8)"],
  ["python", "tempfile.mktemp()"],
  ["js", "Math.random()"],
  ["js", "require('crypto').randomUUID()"],
  ["js", "require('crypto').randomBytes(8).toString('hex')"],
])("differ in the kernel of each clone: %s, %s", async (language, code) => {
  const texts = await Promise.all(all.map(async (each) => (await each.runCode(code, { language })).text));
  expect(texts).not.toContain(undefined);
  expect(new Set(texts).size).toBe(all.length);
});

it("differ in the shell of each clone", async () => {
  const texts = await Promise.all(
    all.map(async (each) => (await each.runCode("echo $RANDOM$RANDOM", { language: "bash" })).logs.stdout.join("")),
  );
  expect(new Set(texts).size).toBe(all.length);
});

it.each([
  ["a command", 8000],
  ["a kernel", 8001],
])("differ in the Node.js server that %s has started, in each clone", async (_, port) => {
  const answers = await Promise.all(
    all.map(async (each) => {
      const { stdout } = await each.commands.run(`curl -s http://127.0.0.1:${port}`);
      return JSON.parse(stdout) as unknown[];
    }),
  );
  for (const index of answers[0]?.keys() ?? []) {
    expect(new Set(answers.map((drawn) => drawn[index])).size, `number ${index} of ${JSON.stringify(answers)}`).toBe(3);
  }
});
