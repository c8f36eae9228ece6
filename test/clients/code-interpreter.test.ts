import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { type Context, Sandbox } from "@e2b/code-interpreter";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { parseAllDocuments } from "yaml";
import * as z from "zod";
import { ClientWorld } from "./client-world.ts";
import { runPython } from "./python-client.ts";

/** E2B's code-interpreter SDKs, unmodified, over a real local cluster with real Jupyter kernels. */
let world: ClientWorld;
let options: Awaited<ReturnType<ClientWorld["connection"]>>;
let environment: Record<string, string>;

beforeAll(async () => {
  world = await ClientWorld.shared("code-interpreter");
  options = await world.connection();
  environment = {
    E2B_API_KEY: options.apiKey,
    E2B_API_URL: options.apiUrl,
    E2B_SANDBOX_URL: options.sandboxUrl,
  };
});
afterAll(() => world.close());

const create = (template = "code-interpreter-v1", more: object = {}) =>
  Sandbox.create(template, { ...options, ...more });

describe("code in a sandbox", () => {
  it("has results, output, errors, contexts and charts (Python)", async () => {
    expect(await runPython("interpreter.py", { environment, seconds: 200 })).toBe("");
  });

  it("has results, output, errors and contexts (JavaScript)", async () => {
    const sandbox = await create(undefined, { envs: { GREETING: "hello" } });
    const streamed: string[] = [];
    const execution = await sandbox.runCode("print('a')\n[1, 2]", { onStdout: ({ line }) => streamed.push(line) });
    expect(execution).toMatchObject({ text: "[1, 2]", logs: { stdout: ["a\n"], stderr: [] }, executionCount: 1 });
    expect(execution.results[0]?.json).toEqual([1, 2]);
    expect(streamed).toEqual(["a\n"]);
    const variables = "import os; os.environ.get('GREETING'), os.environ.get('ONCE')";
    expect((await sandbox.runCode(variables, { envs: { ONCE: "1" } })).text).toBe("('hello', '1')");
    expect((await sandbox.runCode(variables)).text).toBe("('hello', None)");
    const { error } = await sandbox.runCode("missing");
    expect(error).toMatchObject({ name: "NameError", value: "name 'missing' is not defined" });
    const context = await sandbox.createCodeContext({ cwd: "/tmp" });
    expect(context).toMatchObject({ language: "python", cwd: "/tmp" });
    expect((await sandbox.listCodeContexts()).map(({ id }: Context) => id)).toContain(context.id);
    await sandbox.removeCodeContext(context);
    await expect(sandbox.runCode("1", { context })).rejects.toThrow(`Context ${context.id} not found`);
    await expect(sandbox.runCode("1", { language: "cobol" })).rejects.toThrow("400");
    await sandbox.kill();
  });

  it("can be JavaScript and TypeScript", async () => {
    const sandbox = await create(undefined, { envs: { GREETING: "hello" } });
    expect((await sandbox.listCodeContexts()).map(({ language }: Context) => language)).toEqual([
      "python",
      "javascript",
    ]);
    const js = async (code: string, more: object = {}) => sandbox.runCode(code, { language: "js", ...more });
    expect(await js("console.log('a'); console.error('b')")).toMatchObject({
      logs: { stdout: ["a\n"], stderr: ["b\n"] },
    });
    await js("import { readFileSync } from 'fs'; const kept = typeof readFileSync");
    expect((await js("const again = await Promise.resolve(kept); again")).text).toBe("function");
    const variables = "`${process.env.GREETING} ${process.env.ONCE}`";
    expect((await js(variables, { envs: { ONCE: "1" } })).text).toBe("hello 1");
    expect((await js(variables)).text).toBe("hello undefined");
    expect((await js("missing")).error).toMatchObject({ name: "ReferenceError", value: "missing is not defined" });
    await expect(js("while (true) {}", { timeoutMs: 2_000 })).rejects.toThrow("timed out");
    expect((await js("kept")).text).toBe("function");
    expect((await js("process.exit(1)")).error?.name).toBe("ContextRestarting");
    expect((await js("typeof kept")).text).toBe("undefined");
    const typed = "enum Size { Large = 3 }\nconst size: number = Size.Large; size";
    expect((await sandbox.runCode(typed, { language: "ts" })).text).toBe("3");
    await sandbox.kill();
  });

  it("uses the programs and packages that agents expect", async () => {
    const sandbox = await create();
    const programs = "curl git node npm sudo ps unzip gcc make";
    expect((await sandbox.commands.run(`command -v ${programs} | wc -l`)).stdout).toBe("9\n");
    const packages =
      "scipy, sklearn, seaborn, plotly, sympy, openpyxl, bs4, aiohttp, pytest, numpy, pandas, matplotlib";
    const versions = "[each.__version__.rsplit('.', 1)[0] for each in (numpy, pandas, matplotlib)]";
    expect((await sandbox.runCode(`import ${packages}\n${versions}`)).text).toBe("['2.3', '2.2', '3.10']");
    const saved = await sandbox.runCode("from PIL import Image; Image.new('RGB', (2, 2)).save('/tmp/a.png')");
    expect(saved.results.map(({ png }) => png !== undefined)).toEqual([true]);
    await sandbox.kill();
  });

  it("finds packages that commands install", async () => {
    const sandbox = await create();
    const directory = "$(python -c 'import sysconfig; print(sysconfig.get_path(\"purelib\"))')";
    const { stdout } = await sandbox.commands.run(`pip --version; whoami; echo 'b = 1' > ${directory}/a.py`);
    expect(stdout).toMatch(/^pip .*\nuser\n$/);
    expect((await sandbox.runCode("import a; a.b")).text).toBe("1");
    await sandbox.kill();
  });

  it("is interrupted when its client goes", async () => {
    const sandbox = await create();
    await expect(sandbox.runCode("import time; time.sleep(300)", { timeoutMs: 2_000 })).rejects.toThrow("timed out");
    expect((await sandbox.runCode("'still here'")).text).toBe("still here");
    await sandbox.kill();
  });
});

describe("the end of a server", () => {
  it("is an error of the SDK if the sandbox is killed", async () => {
    const sandbox = await create();
    const running = sandbox.runCode("import time; open('/tmp/started', 'w'); time.sleep(300)", { timeoutMs: 300_000 });
    const ended = expect(running).rejects.toThrow();
    await expect.poll(() => sandbox.files.exists("/tmp/started")).toBe(true);
    await sandbox.kill();
    await ended;
  });

  it("is followed by another server, as that of a service", async () => {
    const sandbox = await create();
    await sandbox.runCode("a = 1");
    await sandbox.commands.run("pkill -9 -f 'python -m code_interpreter$'", { user: "root" });
    await expect.poll(() => sandbox.runCode("'a' in globals()").then(({ text }) => text, String)).toBe("False");
    await expect.poll(async () => (await sandbox.commands.run("pgrep -cf code_interpreter.kernel")).stdout).toBe("1\n");
    await sandbox.kill();
  });
});

describe("hostile code", () => {
  it("does not keep later code from running by odd messages, endless output or the end of its kernel", async () => {
    const sandbox = await create();
    const odd = [
      "socket = get_ipython().kernel.iopub_socket",
      "for parts in [b''], [b'a', b'b'], [b'<IDS|MSG>', b'x', b'{}', b'{', b'[]', b'null'], [b'\\xff' * 100000]:",
      "    socket.send_multipart(parts)",
      "'sent'",
    ].join("\n");
    expect((await sandbox.runCode(odd)).text).toBe("sent");
    expect((await sandbox.runCode("'after odd messages'")).text).toBe("after odd messages");
    await sandbox.runCode("while True: print('x' * 1_000_000)", { timeoutMs: 3_000 }).catch(() => undefined);
    expect((await sandbox.runCode("'after endless output'")).text).toBe("after endless output");
    const { error } = await sandbox.runCode("import os; os.kill(os.getpid(), 9)");
    expect(error?.name).toBe("ContextRestarting");
    expect((await sandbox.runCode("'after its end'")).text).toBe("after its end");
    await sandbox.kill();
  });
});

describe("a bad request", () => {
  it("is answered with a sentence, and stops nothing", async () => {
    const sandbox = await create();
    const token = String(Reflect.get(sandbox, "envdAccessToken"));
    const send = async (path: string, body: string | undefined, method = "POST") => {
      const answer = await fetch(`${options.sandboxUrl}${path}`, {
        method,
        headers: { "E2b-Sandbox-Id": sandbox.sandboxId, "E2b-Sandbox-Port": "49999", "X-Access-Token": token },
        ...(body !== undefined && { body }),
      });
      return `${answer.status} ${await answer.text()}`;
    };
    expect(await send("/execute", "{")).toMatch(/^400 the body must be JSON/);
    expect(await send("/execute", "[".repeat(100_000))).toMatch(/^400 the body must be JSON/);
    expect(await send("/execute", "[]")).toBe("400 the body must be a JSON object");
    expect(await send("/execute", "{}")).toBe("400 code must be a string");
    expect(await send("/execute", '{"code":"1","env_vars":{"A=B":"c"}}')).toMatch(/^400 env_vars: 'A=B'/);
    expect(await send("/execute", '{"code":"1","language":"../bash"}')).toMatch(/^400 language '..\/bash'/);
    expect(await send("/execute", '{"code":"1","language":"cobol"}')).toMatch(
      /^400 .*it has bash, javascript, python, typescript$/,
    );
    expect(await send("/execute", '{"code":"1","language":"bash","context_id":"a"}')).toMatch(/^400 Only one/);
    expect(await send("/execute", '{"code":"1","context_id":"a"}')).toBe("404 Context a not found");
    expect(await send("/contexts", '{"cwd":"/missing"}')).toBe("400 cwd /missing is not a directory");
    expect(await send("/contexts/a/restart", "")).toBe("404 Context a not found");
    expect(await send("/contexts/a", undefined, "DELETE")).toBe("404 Context a not found");
    expect(await send("/other", undefined, "GET")).toBe("404 GET /other is not a route");
    expect(await send("/execute", undefined, "GET")).toMatch(/^405 /);
    await send("/execute", "x".repeat(17 << 20)).catch(() => undefined);
    expect(await send("/execute", '{"code":"print(chr(0xd800), end=str())"}')).toContain("end_of_execution");
    expect((await sandbox.runCode("print('x' * 30_000_000)")).logs.stdout.join("").length).toBe(30_000_001);
    expect((await sandbox.runCode("print('x' * 70_000_000)")).error?.name).toBe("OutputLimitExceeded");
    expect((await sandbox.runCode("1")).text).toBe("1");
    await sandbox.kill();
  });
});

describe("a running kernel", () => {
  it("keeps its variables and its plots' modules in clones, which have variables of their own", async () => {
    const source = await create(undefined, { envs: { NAME: "source" } });
    await source.runCode("import matplotlib.pyplot as plt, os; a = [1]");
    const context = await source.createCodeContext();
    await source.runCode("b = 2", { context });
    const { snapshotId } = await source.createSnapshot();
    const clones = await Promise.all(["x", "y"].map((NAME) => create(snapshotId, { envs: { NAME } })));
    for (const clone of clones) await clone.runCode("a.append(2)");
    await source.runCode("a.append(3)");
    const texts = [source, ...clones].map(async (each) => (await each.runCode("a, os.environ['NAME']")).text);
    expect(await Promise.all(texts)).toEqual(["([1, 3], 'source')", "([1, 2], 'x')", "([1, 2], 'y')"]);
    const [clone = source] = clones;
    expect((await clone.runCode("b", { context })).text).toBe("2");
    for (const each of [source, ...clones]) await each.kill();
  });

  it("continues after a pause", async () => {
    const sandbox = await create();
    await sandbox.runCode("a = 1");
    for (const round of [1, 2]) {
      await sandbox.pause();
      await sandbox.connect();
      expect((await sandbox.runCode("print(a)")).logs.stdout).toEqual(["1\n"]);
      await sandbox.runCode(`assert a == 1, ${round}`);
    }
    await sandbox.kill();
  });

  it("runs code of other clients while a sandbox is captured", async () => {
    const sandbox = await create();
    const running = sandbox.runCode("import time\nfor n in range(30):\n  print(n)\n  time.sleep(0.1)");
    await sandbox.createSnapshot();
    expect((await running).logs.stdout.join("")).toContain("29\n");
    await sandbox.kill();
  });

  it("is interrupted in a clone, where nobody waits for it", async () => {
    const source = await create();
    const running = source.runCode("import time\nfor n in range(20):\n  time.sleep(0.5)\nn");
    // The capture must not come before the code.
    await source.runCode("true", { language: "bash" });
    const { snapshotId } = await source.createSnapshot();
    const clone = await create(snapshotId);
    const { text } = await clone.runCode("n < 19");
    expect(text).toBe("True");
    expect((await running).text).toBe("19");
    for (const each of [source, clone]) await each.kill();
  });
});

describe("the page of ACS", () => {
  beforeAll(async () => {
    const file = join(import.meta.dirname, "..", "contract", "api", "manifests", "acs-clone-with-checkpoint.yaml");
    const sets = parseAllDocuments(await readFile(file, "utf8"))
      .map((document) => Manifest.safeParse(document.toJS()).data)
      .filter((manifest) => manifest !== undefined);
    expect(sets.map(({ metadata }) => metadata.name)).toEqual(["code-interpreter-mem", "code-interpreter-no-mem"]);
    for (const { metadata, spec } of sets) {
      const [sandbox] = spec.template.spec.containers;
      Object.assign(sandbox, { image: "code-interpreter" });
      await world.createSet(metadata.name, 1, { ...spec, replicas: 1 });
    }
  });

  it("works with the SDK for Python", async () => {
    const same = "Execution(Results: [], Logs: Logs(stdout: ['1\\n'], stderr: []), Error: None)";
    const lost = "NameError name 'a' is not defined";
    const output = await runPython("interpreter_walkthrough.py", { environment });
    expect(output.trimEnd().split("\n")).toEqual([same, "hello", same, "hello", same, "hello", lost, "hello"]);
  });

  it("works with the SDK for JavaScript", async () => {
    const withMemory = await create("code-interpreter-mem");
    const withoutMemory = await create("code-interpreter-no-mem");
    for (const sandbox of [withMemory, withoutMemory]) {
      await sandbox.runCode("a = 1");
      await sandbox.files.write("/my-file", "hello");
    }
    const first = await withMemory.createSnapshot();
    const second = await withoutMemory.createSnapshot({
      headers: {
        "x-e2b-kruise-snapshot-keep-running": "true",
        "x-e2b-kruise-snapshot-ttl": "30m",
        "x-e2b-kruise-snapshot-persistent-contents": "filesystem",
        "x-e2b-kruise-snapshot-wait-success-seconds": "60",
      },
    });
    await Promise.all([withMemory.kill(), withoutMemory.kill()]);
    const clone = await create(first.snapshotId);
    const files = await create(second.snapshotId);
    expect((await clone.runCode("print(a)")).logs.stdout).toEqual(["1\n"]);
    expect((await files.runCode("print(a)")).error).toMatchObject({
      name: "NameError",
      value: "name 'a' is not defined",
    });
    for (const each of [clone, files]) {
      expect(await each.files.read("/my-file")).toBe("hello");
      await each.kill();
    }
  });
});

const Manifest = z.object({
  kind: z.literal("SandboxSet"),
  metadata: z.object({ name: z.string() }),
  spec: z.looseObject({
    template: z.looseObject({ spec: z.looseObject({ containers: z.tuple([z.looseObject({})]) }) }),
  }),
});
