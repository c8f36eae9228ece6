import { spawn } from "node:child_process";
import { once } from "node:events";
import { copyFile, mkdir, mkdtemp, readdir, rm, utimes, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, it } from "vitest";
import { pruneBuilds } from "./acquire-tools.ts";

const now = new Date("2030-01-10T00:00:00Z");
const daysAgo = (days: number): Date => new Date(now.getTime() - days * 86_400_000);
let parent: string;
beforeEach(async () => {
  parent = await mkdtemp(join(tmpdir(), "ramet-prune-"));
});
afterEach(() => rm(parent, { recursive: true, force: true }));

async function made(version: string, at: Date): Promise<string> {
  const directory = join(parent, version);
  await mkdir(directory);
  await writeFile(join(directory, "tool"), version);
  await utimes(directory, at, at);
  return directory;
}

it("removes versions that were not requested for a day, and keeps the current one, locks and unfinished builds", async () => {
  await made("old", daysAgo(2));
  await made("asked-for", daysAgo(0.9));
  await made("current", daysAgo(3));
  await made("other.making-x", daysAgo(3));
  await writeFile(join(parent, "old.lock"), "1");
  expect(await pruneBuilds({ parent, current: "current", now })).toEqual(["old"]);
  expect((await readdir(parent)).sort()).toEqual(["asked-for", "current", "old.lock", "other.making-x"]);
});

it("keeps versions that a process runs or has in its environment", async () => {
  const running = await made("running", daysAgo(2));
  await copyFile("/bin/sleep", join(running, "tool-copy"));
  await utimes(running, daysAgo(2), daysAgo(2));
  const configured = await made("configured", daysAgo(2));
  const processes = [
    spawn(join(running, "tool-copy"), ["60"]),
    spawn("sleep", ["60"], { env: { RAMET_GUEST: join(configured, "tool"), PATH: process.env["PATH"] } }),
  ];
  await Promise.all(processes.map((child) => once(child, "spawn")));
  const prune = () => pruneBuilds({ parent, current: "current", now });
  try {
    expect(await prune()).toEqual([]);
  } finally {
    const exits = processes.map((child) => once(child, "exit"));
    for (const child of processes) child.kill("SIGKILL");
    await Promise.all(exits);
  }
  expect((await prune()).sort()).toEqual(["configured", "running"]);
});

it("restores a version that is requested while it is being removed", async () => {
  const directory = await made("old", daysAgo(2));
  const isInUse = async (): Promise<boolean> => {
    await utimes(directory, now, now);
    return false;
  };
  expect(await pruneBuilds({ parent, current: "current", now, isInUse })).toEqual([]);
  expect(await readdir(join(parent, "old"))).toEqual(["tool"]);
});
