import { BuildError, Sandbox, Template, type LogEntry, waitForPort } from "e2b";
import { execFile } from "node:child_process";
import { promisify } from "node:util";
import { mkdir, mkdtemp, rm, symlink, writeFile } from "node:fs/promises";
import { randomBytes } from "node:crypto";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { sandboxTemplateKind } from "../../src/api/kinds/sandbox-template.ts";
import { ClientWorld } from "./client-world.ts";

/** The template builder of E2B's current JavaScript SDK, unmodified, over a real local cluster. */
let world: ClientWorld;
let options: Awaited<ReturnType<ClientWorld["connection"]>>;

beforeAll(async () => {
  world = await ClientWorld.shared("template-builder");
  options = await world.connection();
});
afterAll(() => world.close());

type Builder = Parameters<typeof Template.toJSON>[0];

/** Builds a template. @returns what the SDK prints */
async function build(template: Builder, name: string, more: object = {}): Promise<string[]> {
  const logs: string[] = [];
  const onBuildLogs = ({ message }: LogEntry) => logs.push(message);
  await Template.build(template, name, { ...options, onBuildLogs, ...more });
  return logs;
}

const server = (text: string) =>
  Template()
    .fromImage("python")
    .runCmd("echo once >/counted && date +%N >/built")
    .setEnvs({ GREETING: "hello" })
    .setWorkdir("/srv/app")
    .runCmd(`echo "$GREETING ${text}" >index.html`)
    .setStartCmd("python3 -m http.server 8000", waitForPort(8000));

describe("a template", () => {
  it("is built with its logs, and a sandbox of it has the started server", async () => {
    const logs = await build(server("one"), "server:v1");
    expect(logs.join("\n")).toContain("echo once");
    const sandbox = await Sandbox.create("server", options);
    const { stdout } = await sandbox.commands.run(
      "python3 -c 'import urllib.request as u; print(u.urlopen(\"http://127.0.0.1:8000/index.html\").read())'",
    );
    expect(stdout).toContain("hello one");
    await sandbox.kill();
  });

  it("reuses the states of unchanged steps, and keeps earlier builds under their tags", async () => {
    const read = async (name: string, path: string) => {
      const sandbox = await Sandbox.create(name, options);
      const text = await sandbox.files.read(path);
      await sandbox.kill();
      return text;
    };
    const before = await read("server:v1", "/built");
    const logs = await build(server("two"), "server", { tags: ["v2", "latest"] });
    expect(logs.filter((line) => line.startsWith("CACHED")).join("\n")).toContain("echo once");
    expect(await read("server", "/built")).toBe(before);
    expect(await read("server", "/srv/app/index.html")).toBe("hello two\n");
    expect(await read("server:v1", "/srv/app/index.html")).toBe("hello one\n");
    expect(await read("server:latest", "/srv/app/index.html")).toBe("hello two\n");
  });

  it("fails with the step of a command that fails", async () => {
    const failing = Template().fromImage("python").runCmd("true").runCmd("echo broken; exit 3");
    const error: unknown = await build(failing, "failing").catch((thrown: unknown) => thrown);
    expect(error).toBeInstanceOf(BuildError);
    expect(String(error)).toContain("exit code 3");
    await expect(build(failing, "failing")).rejects.toThrow("exit code 3");
    await build(Template().fromImage("python").runCmd("true").runCmd("true"), "failing");
  });
});

/** A directory with a large file, a program, a link and a hidden file. */
async function contextDirectory(large: Buffer): Promise<string> {
  const directory = await mkdtemp(join(tmpdir(), "ramet-context-"));
  await mkdir(join(directory, "app/lib/empty"), { recursive: true });
  await writeFile(join(directory, "app/large"), large);
  await writeFile(join(directory, "app/lib/run.sh"), "#!/bin/sh\necho ran\n", { mode: 0o755 });
  await writeFile(join(directory, "app/.hidden"), "hidden");
  await symlink("lib/run.sh", join(directory, "app/link"));
  await writeFile(join(directory, "a.txt"), "a");
  await writeFile(join(directory, "b.txt"), "b");
  return directory;
}

describe("a recipe", () => {
  it("copies a directory that the command line has stored, once for the same content", async () => {
    const directory = await contextDirectory(randomBytes(1_000_000));
    const ramet = (...args: string[]) =>
      promisify(execFile)(process.execPath, ["bin/ramet.mjs", ...args], {
        env: { ...process.env, KUBECONFIG: world.cluster.directory.kubeconfig },
      });
    try {
      const upload = () => ramet("snapshot", "upload", directory, "--template", "python", "-n", world.namespace);
      const digest = (await upload()).stdout.trim();
      expect(digest).toMatch(/^[0-9a-f]{64}$/);
      expect((await upload()).stdout.trim()).toBe(digest);
      const recipe = [
        { copy: { path: "/copied", tree: digest } },
        { copy: { path: "/b", tree: digest, treePath: "b.txt" } },
      ];
      const manifest = {
        apiVersion: "ramet.dev/v1alpha1",
        kind: "NamedSnapshot",
        metadata: { name: "with-tree", namespace: world.namespace },
        spec: { from: { template: { name: "ramet-python" } }, recipe },
      };
      const file = join(directory, "snapshot.json");
      await writeFile(file, JSON.stringify(manifest));
      await ramet("snapshot", "apply", "-f", file);
      const sandbox = await Sandbox.create("with-tree", options);
      const { stdout } = await sandbox.commands.run(
        "cat /copied/app/.hidden /b && /copied/app/link && stat -c %s /copied/app/large",
      );
      expect(stdout).toBe("hiddenbran\n1000000\n");
      await sandbox.kill();
    } finally {
      await rm(directory, { recursive: true });
    }
  });
});

it("a template of an image is not built if a user has changed the SandboxTemplate that is named after its content", async () => {
  const sizes = { cpuCount: 1, memoryMB: 512 };
  const ofImage = (last: string) => Template().fromImage("python").runCmd(last);
  await build(ofImage("true"), "sized", sizes);
  const templates = world.client.of(sandboxTemplateKind);
  const { items } = await templates.list({ namespace: world.namespace });
  const own = items.find(({ spec }) => JSON.stringify(spec).includes('"memory":"512Mi"'))!;
  const changed = { spec: { template: { metadata: { annotations: { mine: "too" } } } } };
  await templates.mergePatch(own.metadata, changed);
  await expect(build(ofImage("true && true"), "sized", sizes)).rejects.toThrow(
    /has another content than its name says/,
  );
  await templates.delete(own.metadata);
  await expect
    .poll(() =>
      build(ofImage("true && true"), "sized", sizes).then(
        () => true,
        () => false,
      ),
    )
    .toBe(true);
});

it("a named snapshot of a sandbox has the sizes of the sandbox in the list of templates", async () => {
  const sizes = { cpuCount: 1, memoryMB: 640 };
  await build(Template().fromImage("python").runCmd("true"), "small", sizes);
  const sandbox = await Sandbox.create("small", options);
  await sandbox.createSnapshot({ name: "small-copy" });
  await sandbox.kill();
  const get = async (path: string): Promise<unknown> =>
    (await fetch(`${options.apiUrl}${path}`, { headers: { "x-api-key": options.apiKey } })).json();
  const listed = (templateID: string) => expect.objectContaining({ templateID, ...sizes }) as object;
  expect(await get("/templates")).toEqual(expect.arrayContaining([listed("small"), listed("small-copy")]));
  expect(await get("/templates/small-copy")).toMatchObject({ builds: [{ status: "ready", ...sizes }] });
});

describe("files", () => {
  it("are uploaded once, and copied with their modes, owners and links", async () => {
    const large = randomBytes(5_000_000);
    const directory = await contextDirectory(large);
    const files = (last: string) =>
      Template({ fileContextPath: directory })
        .fromImage("python")
        .runCmd("mkdir -p /srv/app/lib && echo kept >/srv/app/lib/kept && chmod 700 /srv/app/lib")
        .copy("app", "/srv/app")
        .setWorkdir("/data")
        .copy("a.txt", "renamed.txt", { mode: 0o600, user: "nobody" })
        .copy("*.txt", "texts/")
        .copy("b.txt", "texts/below/")
        .runCmd(last);
    try {
      await build(files("true"), "files");
      const logs = await build(files("true && true"), "files");
      expect(logs.filter((line) => line.startsWith("Skipping upload"))).toHaveLength(4);
      expect(logs.filter((line) => line.startsWith("CACHED") && line.includes("copy"))).toHaveLength(4);
      const sandbox = await Sandbox.create("files", options);
      const run = async (command: string) => (await sandbox.commands.run(command, { user: "root" })).stdout.trim();
      expect(await run("cd /srv/app && ./link && cat lib/kept .hidden && stat -c %a lib lib/run.sh")).toBe(
        "ran\nkept\nhidden700\n755",
      );
      expect(Buffer.from(await sandbox.files.read("/srv/app/large", { format: "bytes" })).equals(large)).toBe(true);
      expect(await run("find /data -type f | sort && stat -c '%a %U' /data/renamed.txt")).toBe(
        "/data/renamed.txt\n/data/texts/a.txt\n/data/texts/b.txt\n/data/texts/below/b.txt\n600 nobody",
      );
      await sandbox.kill();
    } finally {
      await rm(directory, { recursive: true });
    }
  });

  it("of one key are no input of another key's build, whatever digest they are uploaded under", async () => {
    const directory = await contextDirectory(randomBytes(10));
    const template = Template({ fileContextPath: directory }).fromImage("python").copy("a.txt", "/srv/");
    const skipped = (logs: string[]) => logs.filter((line) => line.startsWith("Skipping upload"));
    const other = await world.connection(world.namespace, "other");
    try {
      await build(template, "mine");
      expect(skipped(await build(template, "mine"))).toHaveLength(1);
      expect(skipped(await build(template, "theirs", other))).toEqual([]);
      expect(skipped(await build(template, "theirs", other))).toHaveLength(1);
    } finally {
      await rm(directory, { recursive: true });
    }
  });

  it("are refused if the archive is not valid, and with a link that nobody has signed", async () => {
    const headers = { "x-api-key": options.apiKey, "content-type": "application/json" };
    const hash = "0".repeat(64);
    const answer = await fetch(`${options.apiUrl}/templates/files/files/${hash}`, { headers });
    const { url, present } = (await answer.json()) as { url: string; present: boolean };
    expect([answer.status, present]).toEqual([201, false]);
    const put = (to: string, body: Buffer) => fetch(to, { method: "PUT", body: new Uint8Array(body) });
    const invalid = await put(url, randomBytes(100_000));
    expect([invalid.status, await invalid.text()]).toEqual([400, expect.stringContaining("its format is not tar")]);
    expect((await put(`${url}x`, randomBytes(10))).status).toBe(401);
    expect((await fetch(`${options.apiUrl}/templates/files/files/${hash}`)).status).toBe(401);
  });
});
