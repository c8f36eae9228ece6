import { createHash } from "node:crypto";
import { once } from "node:events";
import { mkdir, mkdtemp, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { zstdCompressSync } from "node:zlib";
import { afterEach, beforeEach, expect, it } from "vitest";
import { systemClock } from "../../base/clock.ts";
import { FairTurns } from "../../base/fair-turns.ts";
import { goEnvironment } from "./acquire-tools.ts";
import { makeDownloader } from "./download.ts";
import { findGo } from "./go-build.ts";
import { type MakeOptions, makeTool } from "./make-tool.ts";
import { progressLine } from "./progress.ts";
import { runProgram } from "./run-program.ts";
import { cacheDirectory, type Release, type Tool } from "./tool.ts";

let dir: string;
let lines: string[];
let server: Server;
let base: string;
let requests: string[];
let served: Map<string, Buffer>;

beforeEach(async () => {
  dir = await mkdtemp(join(tmpdir(), "ramet-make-"));
  lines = [];
  requests = [];
  served = new Map();
  server = createServer((request, response) => {
    requests.push(request.url ?? "");
    const body = served.get(request.url ?? "");
    response.writeHead(body === undefined ? 404 : 200).end(body);
  }).listen(0, "127.0.0.1");
  await once(server, "listening");
  base = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
});
afterEach(async () => {
  server.close();
  await rm(dir, { recursive: true, force: true });
});

const go = await findGo(process.env);
/** The first build compiles Go's standard library. */
const buildTimeout = { timeout: 180_000 };

function options(overrides: Partial<MakeOptions> = {}): MakeOptions {
  return {
    findGo: () => Promise.resolve(go),
    downloader: makeDownloader({}),
    goEnvironment: { ...goEnvironment(cacheDirectory(), process.env), HOME: join(dir, "home") },
    builds: new FairTurns(1),
    line: progressLine("hello", (line) => lines.push(line), systemClock),
    ...overrides,
  };
}

/** The release of this content, whose digest is pinned. */
function released(path: string, content: Buffer, format: Release["format"] = { kind: "program" }): Release {
  served.set(path, content);
  return { url: base + path, digest: `sha512:${createHash("sha512").update(content).digest("hex")}`, format };
}

/** A Go program of four lines. */
async function helloTool(release?: Release, source = 'package main\n\nfunc main() { println("hello") }\n'): Promise<Tool> {
  const module = join(dir, "module");
  await mkdir(module, { recursive: true });
  await writeFile(join(module, "go.mod"), "module example.test/hello\n\ngo 1.21\n");
  await writeFile(join(module, "main.go"), source);
  return {
    name: "hello",
    version: "1",
    build: { module, package: ".", set: {}, coldSeconds: 1 },
    ...(release && { release }),
  };
}

it("downloads a program that matches the pinned digest", async () => {
  const tool = await helloTool(released("/hello", Buffer.from("#!/bin/sh\necho released\n")));
  const parent = join(dir, "cache");
  await mkdir(parent);
  expect(await makeTool(tool, parent, options())).toBe("downloaded");
  expect((await runProgram(join(parent, "1", "hello"), [])).stdout).toBe("released\n");
  expect(await readdir(parent)).toEqual(["1"]);
});

it("extracts several programs from a Zstandard archive", async () => {
  await mkdir(join(dir, "set", "gvisor-bin"), { recursive: true });
  for (const name of ["hello", "gvisor-bin/helper", "unwanted"]) await writeFile(join(dir, "set", name), name);
  await runProgram("tar", ["-c", "-C", join(dir, "set"), "-f", join(dir, "set.tar"), "hello", "gvisor-bin", "unwanted"]);
  const archive = zstdCompressSync(await readFile(join(dir, "set.tar")));
  const members = ["hello", "gvisor-bin"];
  const tool = await helloTool(released("/set.tar.zst", archive, { kind: "tar.zst", strip: 0, members }));
  await mkdir(join(dir, "cache"));
  await makeTool(tool, join(dir, "cache"), options());
  expect((await readdir(join(dir, "cache", "1"), { recursive: true })).sort()).toEqual([
    "gvisor-bin",
    "gvisor-bin/helper",
    "hello",
  ]);
});

it.skipIf(go === undefined)("reports a download with another digest and builds instead", buildTimeout, async () => {
  const tool = await helloTool(released("/hello", Buffer.from("as released")));
  const changed = Buffer.from("changed on the way");
  served.set("/hello", changed);
  // Whoever changes the file on its host can also change the checksums there.
  for (const name of ["/hello.sha512", "/SHA512SUMS"]) {
    served.set(name, Buffer.from(`${createHash("sha512").update(changed).digest("hex")}  hello\n`));
  }
  await mkdir(join(dir, "cache"));
  expect(await makeTool(tool, join(dir, "cache"), options())).toBe("built");
  expect((await runProgram(join(dir, "cache", "1", "hello"), [])).stderr).toBe("hello\n");
  expect(lines.join("\n")).toContain("does not match the digest");
});

it("downloads nothing without a pinned digest", async () => {
  const tool = await helloTool({ ...released("/hello", Buffer.from("anything")), digest: undefined });
  await mkdir(join(dir, "cache"));
  const shared = options({ findGo: () => Promise.resolve(undefined) });
  await expect(makeTool(tool, join(dir, "cache"), shared)).rejects.toMatchObject({
    message: expect.stringMatching(/has no digest of it for .*Go is not installed/) as string,
  });
  expect(requests).toEqual([]);
});

it("tries an unreachable host only once", async () => {
  server.close();
  await once(server, "close");
  const tool = await helloTool(released("/hello", Buffer.from("never sent")));
  await mkdir(join(dir, "cache"));
  const shared = options({ findGo: () => Promise.resolve(undefined) });
  for (let attempt = 0; attempt < 2; attempt += 1) {
    await expect(makeTool(tool, join(dir, "cache"), shared)).rejects.toMatchObject({
      code: "ToolMissing",
      message: expect.stringMatching(/is unreachable.*Go is not installed/) as string,
    });
  }
  expect(await readdir(join(dir, "cache"))).toEqual([]);
});

it.skipIf(go === undefined)("clears away what a killed run left behind", buildTimeout, async () => {
  await mkdir(join(dir, "cache", "1.making-abcdef", "1"), { recursive: true });
  expect(await makeTool(await helloTool(), join(dir, "cache"), options())).toBe("built");
  expect(await readdir(join(dir, "cache"))).toEqual(["1"]);
  // Nothing was written to the user's home either.
  expect((await readdir(dir)).sort()).toEqual(["cache", "module"]);
});

it.skipIf(go === undefined)("reports the compiler's error, and leaves no files", buildTimeout, async () => {
  const tool = await helloTool(undefined, "package main\n\nfunc main() { nonsense() }\n");
  await mkdir(join(dir, "cache"));
  await expect(makeTool(tool, join(dir, "cache"), options())).rejects.toMatchObject({
    message: expect.stringContaining("undefined: nonsense") as string,
  });
  expect(await readdir(join(dir, "cache"))).toEqual([]);
});

it.skipIf(go === undefined)("stops immediately when it is aborted", async () => {
  const abort = new AbortController();
  abort.abort();
  await mkdir(join(dir, "cache"));
  const made = makeTool(await helloTool(), join(dir, "cache"), options({ signal: abort.signal }));
  await expect(made).rejects.toMatchObject({ name: "AbortError" });
  expect(await readdir(join(dir, "cache"))).toEqual([]);
});
