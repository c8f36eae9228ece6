import { readdir, readFile } from "node:fs/promises";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { RunningCell } from "../../setup/cell-rig.ts";
import { Cells } from "../../setup/cells.ts";

/** The rights of a sandbox's processes, as docs/reference/cell.md states. A gVisor release must not change them unseen. */
describe.runIf(process.getuid?.() === 0)("rights of a sandbox's processes", () => {
  let cells: Cells;
  let cell: RunningCell;
  let uid: string;

  beforeAll(async () => {
    cells = await Cells.open();
    cell = await cells.boot({ name: "rights" });
    uid = cell.address.sandboxUid;
  });
  afterAll(() => cells.close());

  it("the sentry has the file capabilities and SYS_PTRACE, a seccomp filter and no way to gain more", async () => {
    const found = await statusOf(/^runsc-sandbox/, uid);
    expect(capabilities(found["CapEff"])).toEqual([...fileCapabilities, "SYS_PTRACE"]);
    expect(found).toMatchObject({ CapBnd: found["CapEff"], Seccomp: "2", NoNewPrivs: "1" });
  });

  it("the gofer has the file capabilities and SYS_CHROOT, a seccomp filter and no way to gain more", async () => {
    const found = await statusOf(/^runsc-gofer/, uid);
    expect(capabilities(found["CapEff"])).toEqual([...fileCapabilities, "SYS_CHROOT"]);
    expect(found).toMatchObject({ CapBnd: found["CapEff"], Seccomp: "2", NoNewPrivs: "1" });
  });

  it("link has no effective capability, a seccomp filter and no way to gain more", async () => {
    const found = await statusOf(/ramet-link\0net/, uid);
    expect(capabilities(found["CapEff"])).toEqual([]);
    expect(capabilities(found["CapPrm"])).toEqual(["NET_ADMIN"]);
    expect(found).toMatchObject({ CapInh: found["CapEff"], Seccomp: "2", NoNewPrivs: "1" });
  });

  it("no process can leave its memory in a core file", async () => {
    const programs = {
      cell: /cell\/main\.ts|cell\.c?js/,
      link: /ramet-link\0net/,
      sentry: /^runsc-sandbox/,
      gofer: /^runsc-gofer/,
    };
    for (const [name, program] of Object.entries(programs)) {
      const limits = await readFile(`/proc/${await pidOf(program, uid)}/limits`, "utf8");
      expect(limits, name).toMatch(/^Max core file size +1 +1 +bytes/m);
    }
  });

  it("a command in the sandbox has the default capabilities of a container, also as root", async () => {
    const status = fields(await cells.output(cell, "cat /proc/self/status"));
    expect(capabilities(status["CapEff"])).toEqual(containerCapabilities);
    expect(status["CapBnd"]).toBe(status["CapEff"]);
  });
});

const fileCapabilities = ["CHOWN", "DAC_OVERRIDE", "DAC_READ_SEARCH", "FOWNER", "FSETID"];
const containerCapabilities = [
  "CHOWN",
  "DAC_OVERRIDE",
  "FOWNER",
  "FSETID",
  "KILL",
  "SETGID",
  "SETUID",
  "SETPCAP",
  "NET_BIND_SERVICE",
  "SYS_CHROOT",
  "MKNOD",
  "AUDIT_WRITE",
  "SETFCAP",
];
/** From linux/capability.h. */
const bits: Record<string, number> = {
  CHOWN: 0,
  DAC_OVERRIDE: 1,
  DAC_READ_SEARCH: 2,
  FOWNER: 3,
  FSETID: 4,
  KILL: 5,
  SETGID: 6,
  SETUID: 7,
  SETPCAP: 8,
  NET_BIND_SERVICE: 10,
  NET_ADMIN: 12,
  SYS_CHROOT: 18,
  SYS_PTRACE: 19,
  SYS_ADMIN: 21,
  MKNOD: 27,
  AUDIT_WRITE: 29,
  SETFCAP: 31,
};

/** The names of the capabilities in a mask; an unknown one by its number. */
function capabilities(mask = "0"): string[] {
  const value = BigInt(`0x${mask}`);
  const set = Array.from({ length: 64 }, (_, bit) => bit).filter((bit) => (value & (1n << BigInt(bit))) !== 0n);
  return set.map((bit) => Object.keys(bits).find((name) => bits[name] === bit) ?? String(bit));
}

/** The fields of `/proc/<pid>/status` of the cell's process with this command line. */
async function statusOf(program: RegExp, uid: string): Promise<Record<string, string>> {
  return fields(await readFile(`/proc/${await pidOf(program, uid)}/status`, "utf8"));
}

async function pidOf(program: RegExp, uid: string): Promise<string> {
  for (const pid of (await readdir("/proc")).filter((name) => /^\d+$/.test(name))) {
    const command = await readFile(`/proc/${pid}/cmdline`, "utf8").catch(() => "");
    if (!program.test(command)) continue;
    // gVisor's processes are started with the sandbox's id, and link with the cell's environment.
    const environment = await readFile(`/proc/${pid}/environ`, "utf8").catch(() => "");
    if (`${command}${environment}`.includes(uid)) return pid;
  }
  throw new Error(`no process ${String(program)} of ${uid} runs`);
}

function fields(status: string): Record<string, string> {
  return Object.fromEntries(
    status
      .trim()
      .split("\n")
      .map((line) => line.split(/:\s*/) as [string, string]),
  );
}
