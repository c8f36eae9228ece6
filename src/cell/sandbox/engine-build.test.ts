import { mkdtemp, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, it } from "vitest";
import { engineBuild, engineFailure } from "./engine-build.ts";

/** A program in the place of gVisor, whose `cpu-features` runs this script. */
async function programs(cpuFeatures: string): Promise<{ runsc: string; guest: string }> {
  const directory = await mkdtemp(join(tmpdir(), "engine-build-"));
  const [runsc, guest] = [join(directory, "runsc"), join(directory, "guest")];
  const script = `#!/bin/sh\n[ "$1" = --version ] && echo "runsc version v1" && exit\ncd ${directory}\n${cpuFeatures}\n`;
  await writeFile(runsc, script, { mode: 0o755 });
  await writeFile(guest, "guest");
  return { runsc, guest };
}

it("reads the features of the CPU again if gVisor could not start once", async () => {
  const once = await programs("[ -e tried ] && echo fpu,sse2 && exit\ntouch tried; exit 2");
  expect(await engineBuild(once)).toMatchObject({ version: "v1", cpuFeatures: ["fpu", "sse2"] });
});

it("fails if the features stay unknown, because memory would be restored on any CPU", async () => {
  await expect(engineBuild(await programs("echo cannot start threads >&2; exit 2"))).rejects.toMatchObject({
    code: "EngineFailed",
    message: expect.stringMatching(/runsc cpu-features failed: cannot start threads$/) as string,
  });
  await expect(engineBuild(await programs("true"))).rejects.toMatchObject({
    message: expect.stringMatching(/runsc cpu-features failed: it printed something else$/) as string,
  });
});

const stack = `goroutine 1 [running]:
gvisor.dev/gvisor/pkg/urpc.(*Client).Call(0xc000, {0x1, 0x2})
\tgvisor.dev/gvisor@v0.0.0/pkg/urpc/urpc.go:472 +0x6b
main.main()
\trunsc/main.go:12 +0x17`;

it("names a full disk and where it is, not the last line of a stack", () => {
  const output = `checkpoint failed: write pages.img: no space left on device\n${stack}`;
  const error = engineFailure({ command: "checkpoint", output, imagePath: "/store/default/staging/x" });
  expect(error.code).toBe("StoreFull");
  expect(error.message).toBe("gVisor checkpoint failed: no space left on device in /store/default/staging/x");
  expect(error.hint).toContain("Delete checkpoints");
});

it.each([
  [`restore failed: a mount is missing\n${stack}`, "gVisor restore failed: restore failed: a mount is missing"],
  ["loading container: file does not exist\n", "gVisor restore failed: loading container: file does not exist"],
  [stack, "gVisor restore failed: runsc/main.go:12 +0x17"],
])("quotes the last line that is not part of a stack", (output, message) => {
  expect(engineFailure({ command: "restore", output, imagePath: undefined })).toMatchObject({
    code: "EngineFailed",
    message,
  });
});
