import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, rm, stat, utimes } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { expect, it, onTestFinished } from "vitest";
import { clusterDirectory } from "../../src/local/cluster-directory.ts";
import { readStatus } from "../../src/local/cluster-status.ts";

const root = fileURLToPath(new URL("../..", import.meta.url));

it("restarts only the controller and the gateway when a source changes, and stops on Ctrl-C", async () => {
  const home = await mkdtemp(join(tmpdir(), "ramet-dev-"));
  const dev = spawn(process.execPath, ["scripts/dev.mjs"], {
    cwd: root,
    env: { ...process.env, XDG_DATA_HOME: home },
    stdio: ["ignore", "inherit", "pipe"],
  });
  onTestFinished(() => rm(home, { recursive: true, force: true }));
  const ended = once(dev, "exit");
  onTestFinished(() => {
    dev.kill("SIGTERM");
    return ended.then(() => undefined);
  });
  let output = "";
  dev.stderr.setEncoding("utf8").on("data", (text: string) => (output += text));
  const printed = (pattern: RegExp): Promise<void> =>
    expect.poll(() => output, { timeout: 60_000, interval: 50 }).toMatch(pattern);
  const { status } = clusterDirectory("dev", { XDG_DATA_HOME: home });
  const processes = (): Record<string, number | undefined> =>
    Object.fromEntries(readStatus(status)?.parts.map(({ name, process }) => [name, process?.pid]) ?? []);

  await printed(/^The controller's log follows/m);
  const before = processes();
  const source = join(root, "src/controllers/run.ts");
  const { atime, mtime } = await stat(source);
  await utimes(source, atime, mtime);
  await printed(/^src\/controllers\/run.ts changed: built after/m);
  await printed(/^controller and gateway are running/m);
  const after = processes();
  expect(after).toMatchObject({ etcd: before["etcd"], "api-server": before["api-server"], node: before["node"] });
  expect(after["controller"]).not.toBe(before["controller"]);
  expect(after["gateway"]).not.toBe(before["gateway"]);

  dev.kill("SIGINT");
  expect(await ended).toEqual([0, null]);
  expect(readStatus(status)?.phase).toBe("down");
});
