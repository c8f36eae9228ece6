import { expect, it } from "vitest";
import { engineFailure } from "./engine-failure.ts";

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
