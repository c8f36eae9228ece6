import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync } from "node:fs";
import { mkdir, readFile, rmdir, writeFile } from "node:fs/promises";
import { describe, expect, it, onTestFinished } from "vitest";
import { planV2 } from "../../../src/cell/cgroup/plan-versions.ts";
import { inLeaves, SandboxCgroup } from "../../../src/cell/cgroup/sandbox-cgroup.ts";

/**
 * On a machine with cgroup v1, the unified hierarchy has no controllers. This proves how processes are put into leaves, moved
 * and killed there, but not that limits are enforced.
 */
const mount = (await readFile("/proc/self/mountinfo", "utf8"))
  .split("\n")
  .find((line) => line.includes(" - cgroup2 "))
  ?.split(" ")[4];
const uid = `test-${process.pid}`;

describe.runIf(mount !== undefined && process.getuid?.() === 0)("control groups in the unified hierarchy", () => {
  it("starts a program in its group, moves it aside and back, and kills it with the group", async () => {
    const parent = mount ?? "";
    const plan = planV2({ kind: "machine", parent, controllers: [], bounds: {} }, { uid, limits: { processes: 1 } });
    const cgroup = await SandboxCgroup.make(plan);
    const { program, args } = inLeaves(cgroup.enter, "sleep", ["1000"]);
    const child = start(program, args);
    const pid = child.pid ?? 0;
    const exited = once(child, "exit");
    await expect.poll(() => groupOf(pid)).toBe(`/ramet/${uid}/sandbox`);
    await cgroup.aside(pid, () => expect.poll(() => groupOf(pid)).toBe(`/ramet/${uid}/cut`));
    await expect.poll(() => groupOf(pid)).toBe(`/ramet/${uid}/sandbox`);
    await cgroup.remove();
    expect(await exited).toEqual([null, "SIGKILL"]);
    expect(existsSync(`${parent}/ramet/${uid}`)).toBe(false);
  });

  it("moves the container's processes into a group of their own", async () => {
    const container = `${mount ?? ""}/ramet-${uid}`;
    await mkdir(container);
    onTestFinished(() => rmdir(container));
    const child = start("sleep", ["1000"]);
    await writeFile(`${container}/cgroup.procs`, `${child.pid ?? 0}`);
    const place = { kind: "pod", parent: container, controllers: [], bounds: {} } as const;
    const cgroup = await SandboxCgroup.make(planV2(place, { uid, limits: { processes: 1 } }));
    expect(await groupOf(child.pid ?? 0)).toBe(`/ramet-${uid}/cell`);
    const exited = once(child, "exit");
    await cgroup.remove();
    expect(await groupOf(child.pid ?? 0)).toBe(`/ramet-${uid}/cell`);
    child.kill("SIGKILL");
    await exited;
    await expect.poll(() => rmdir(`${container}/cell`).then(() => "gone", String)).toBe("gone");
  });
});

function start(program: string, args: readonly string[]): ChildProcess {
  const child = spawn(program, args, { stdio: "ignore" });
  onTestFinished(() => {
    child.kill("SIGKILL");
  });
  return child;
}

async function groupOf(pid: number): Promise<string | undefined> {
  const text = await readFile(`/proc/${pid}/cgroup`, "utf8").catch(() => "");
  return /^0::(.*)$/m.exec(text)?.[1];
}
