import { readdir, readFile } from "node:fs/promises";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { Cells } from "../../setup/cells.ts";

/** What the processes of gVisor can do on the host, as docs/reference/cell.md states. A gVisor release must not change it unseen. */
describe.runIf(process.getuid?.() === 0)("rights of gVisor's processes", () => {
  let cells: Cells;
  let uid: string;

  beforeAll(async () => {
    cells = await Cells.open();
    const { address } = await cells.boot({ name: "rights" });
    uid = address.sandboxUid;
  });
  afterAll(() => cells.close());

  it("the sentry has the file capabilities and SYS_PTRACE, a seccomp filter and no way to gain more", async () => {
    const found = await statusOf("runsc-sandbox", uid);
    expect(capabilities(found["CapEff"])).toEqual([...fileCapabilities, "SYS_PTRACE"]);
    expect(found).toMatchObject({ CapBnd: found["CapEff"], Seccomp: "2", NoNewPrivs: "1" });
  });

  it("the gofer has the file capabilities and SYS_CHROOT, a seccomp filter and no way to gain more", async () => {
    const found = await statusOf("runsc-gofer", uid);
    expect(capabilities(found["CapEff"])).toEqual([...fileCapabilities, "SYS_CHROOT"]);
    expect(found).toMatchObject({ CapBnd: found["CapEff"], Seccomp: "2", NoNewPrivs: "1" });
  });
});

const fileCapabilities = ["CHOWN", "DAC_OVERRIDE", "DAC_READ_SEARCH", "FOWNER", "FSETID"];
/** From linux/capability.h. */
const bits: Record<string, number> = {
  CHOWN: 0,
  DAC_OVERRIDE: 1,
  DAC_READ_SEARCH: 2,
  FOWNER: 3,
  FSETID: 4,
  SYS_CHROOT: 18,
  SYS_PTRACE: 19,
};

/** The names of the capabilities in a mask; an unknown one by its number. */
function capabilities(mask = "0"): string[] {
  const value = BigInt(`0x${mask}`);
  const set = Array.from({ length: 64 }, (_, bit) => bit).filter((bit) => (value & (1n << BigInt(bit))) !== 0n);
  return set.map((bit) => Object.keys(bits).find((name) => bits[name] === bit) ?? String(bit));
}

/** The fields of `/proc/<pid>/status` of the sandbox's process with this name. */
async function statusOf(program: string, uid: string): Promise<Record<string, string>> {
  for (const pid of (await readdir("/proc")).filter((name) => /^\d+$/.test(name))) {
    const command = await readFile(`/proc/${pid}/cmdline`, "utf8").catch(() => "");
    if (!command.startsWith(program) || !command.includes(uid)) continue;
    const lines = (await readFile(`/proc/${pid}/status`, "utf8")).trim().split("\n");
    return Object.fromEntries(lines.map((line) => line.split(/:\s*/) as [string, string]));
  }
  throw new Error(`no ${program} of ${uid} runs`);
}
