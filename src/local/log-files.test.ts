import { appendFile, mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { once } from "node:events";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { PassThrough } from "node:stream";
import { afterEach, beforeEach, expect, it } from "vitest";
import { clusterDirectory, type ClusterDirectory } from "./cluster-directory.ts";
import { sendPartLog } from "./log-files.ts";

let home: string;
let directory: ClusterDirectory;
beforeEach(async () => {
  home = await mkdtemp(join(tmpdir(), "ramet-logs-"));
  directory = clusterDirectory("test", { XDG_DATA_HOME: home });
  await mkdir(dirname(directory.log("node")), { recursive: true });
});
afterEach(() => rm(home, { recursive: true, force: true }));

it("writes new lines until it is aborted", async () => {
  await writeFile(directory.log("node"), "one\n");
  const to = new PassThrough({ encoding: "utf8" });
  const stop = new AbortController();
  const ended = sendPartLog(directory, to, { part: "node", follow: true, signal: stop.signal });
  expect((await once(to, "data"))[0]).toBe("one\n");
  const next = once(to, "data");
  // Must be seen whether it is written before or after the watch starts.
  await appendFile(directory.log("node"), "two\n");
  expect((await next)[0]).toBe("two\n");
  stop.abort();
  await ended;
});

it("rejects a part that has never been started", async () => {
  const to = new PassThrough();
  const options = { part: "etcd", follow: false, signal: new AbortController().signal } as const;
  await expect(sendPartLog(directory, to, options)).rejects.toThrow(
    /Cannot read the log of etcd: the cluster .* has never started it/,
  );
});
