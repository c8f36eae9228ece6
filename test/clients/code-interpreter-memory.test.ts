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

/** 100 MB a second: the server of the image sees faster growth of other programs than Python kernels too late. */
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

it.each([
  ["in one statement", "memory = bytearray(2 << 30)"],
  ["as fast as it can", "memory = []\nwhile True: memory.append(b'x' * 1_000_000)"],
  ["as fast as it can, in small objects", "memory = []\nwhile True: memory.append(str(len(memory)) * 1000)"],
])("survives Python code that allocates more than the sandbox has %s", async (_, code) => {
  const context = await sandbox.createCodeContext({ language: "python" });
  const { error } = await sandbox.runCode(code, { context });
  expect(error?.name).toMatch(/^(MemoryError|OutOfMemory)$/);
  expect((await sandbox.runCode("kept")).text).toBe("1");
  await sandbox.removeCodeContext(context);
});

it("keeps the variables of a kernel whose single allocation is too large", async () => {
  await sandbox.runCode("before = 7");
  expect((await sandbox.runCode("bytearray(2 << 30)")).error).toMatchObject({ name: "MemoryError" });
  expect((await sandbox.runCode("before")).text).toBe("7");
});

it("does not limit the addresses of processes that code starts, nor mapped files", async () => {
  const program = "new WebAssembly.Memory({ initial: 1, maximum: 65536 }); console.log('started')";
  const started = [
    "import mmap, subprocess, tempfile",
    `started = [subprocess.check_output(["node", "-e", ${JSON.stringify(program)}], text=True) for _ in range(5)]`,
    "file = tempfile.TemporaryFile()",
    "file.truncate(8 << 30)",
    "mapped = mmap.mmap(file.fileno(), 8 << 30)",
    "len(set(started)), started[0].strip(), len(mapped) >> 30",
  ].join("\n");
  const { text, error } = await sandbox.runCode(started);
  expect(error).toBeUndefined();
  expect(text).toBe("(1, 'started', 8)");
  expect((await sandbox.runCode("mapped.close(); 1")).text).toBe("1");
});

it("does not limit threads, which reserve more than they use, nor processes of multiprocessing", async () => {
  const started = [
    "import multiprocessing, resource",
    "from concurrent.futures import ThreadPoolExecutor",
    "from threading import Barrier",
    "together = Barrier(64)",
    "with ThreadPoolExecutor(64) as pool: waited = list(pool.map(lambda _: together.wait(60), range(64)))",
    'with multiprocessing.get_context("spawn").Pool(1) as pool:',
    "    limits = pool.apply(resource.getrlimit, (resource.RLIMIT_AS,))",
    "len(waited), limits[0] == resource.RLIM_INFINITY",
  ].join("\n");
  const { text, error } = await sandbox.runCode(started);
  expect(error).toBeUndefined();
  expect(text).toBe("(64, True)");
});

it("ends a process that code has started, and not its kernel", async () => {
  const started = `import subprocess, sys\nsubprocess.run([sys.executable, "-c", ${JSON.stringify(grow)}]).returncode`;
  expect((await sandbox.runCode(started)).text).toBe("-9");
  expect((await sandbox.runCode("kept")).text).toBe("1");
});
