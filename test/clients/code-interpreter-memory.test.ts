import { Sandbox } from "@e2b/code-interpreter";
import { afterAll, beforeAll, expect, it } from "vitest";
import { clusterTemplates } from "../../src/local/supervisor/seed-cluster.ts";
import { ClientWorld } from "./client-world.ts";

/** Code that uses more memory than its sandbox has, in the image `code-interpreter`. */
let world: ClientWorld;
let sandbox: Sandbox;

beforeAll(async () => {
  world = await ClientWorld.shared("interpreter-memory");
  const template = clusterTemplates.find(({ metadata }) => metadata.name === "ramet-code-interpreter")?.spec.template;
  const containers = template?.spec.containers.map((each) => ({ ...each, resources: { limits: { memory: "1Gi" } } }));
  await world.createSet("limited", 1, { template: { spec: { containers } } });
  sandbox = await Sandbox.create("limited", await world.connection());
  await sandbox.runCode("kept = 1");
});
afterAll(async () => {
  await sandbox.kill();
  await world.close();
});

/** 100 MB a second: the server of the image sees faster growth too late. */
const grow = "import time\nparts = []\nwhile True: parts.append(b'x' * 1_000_000); time.sleep(0.01)";
const growInJavaScript = `const parts = [];
for (;;) {
  parts.push(Buffer.alloc(1e6, 1));
  await new Promise((resolve) => setTimeout(resolve, 10));
}`;

it.each([
  ["allocates in Python", "python", grow],
  ["allocates in JavaScript", "javascript", growInJavaScript],
])("ends the kernel of code that %s, and no other one", async (_, language, code) => {
  const context = await sandbox.createCodeContext({ language });
  const { error } = await sandbox.runCode(code, { context });
  expect(error?.name).toBe("OutOfMemory");
  expect(error?.value).toMatch(
    /^The process \d+ of this context was ended: the sandbox used \d+ MiB of its limit of 1024 MiB/,
  );
  expect((await sandbox.runCode("kept")).text).toBe("1");
  expect((await sandbox.runCode("1 + 1", { context })).text).toBe("2");
  await sandbox.removeCodeContext(context);
});

it("ends a process that code has started, and not its kernel", async () => {
  const started = `import subprocess, sys\nsubprocess.run([sys.executable, "-c", ${JSON.stringify(grow)}]).returncode`;
  expect((await sandbox.runCode(started)).text).toBe("-9");
  expect((await sandbox.runCode("kept")).text).toBe("1");
});
