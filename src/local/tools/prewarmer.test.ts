import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, it, onTestFinished } from "vitest";
import { addPrewarmer } from "./prewarmer.ts";
import { runProgram } from "./run-program.ts";

it.runIf(process.arch === "x64")("becomes the program, with its arguments, environment and a longer table", async () => {
  const dir = await mkdtemp(join(tmpdir(), "ramet-prewarmer-"));
  onTestFinished(() => rm(dir, { recursive: true }));
  await writeFile(join(dir, "runsc"), "");
  await addPrewarmer(dir);
  const prewarmer = join(dir, "gvisor-bin", "gvisor-sentry-prewarmer");
  const script = 'echo "$0 $1 $RAMET_TEST"; grep FDSize /proc/self/status; grep FDSize /proc/$$/status; ls /proc/$$/fd';
  const { stdout } = await runProgram(prewarmer, ["/bin/sh", "sh", "-c", script, "zero", "one"], {
    environment: { RAMET_TEST: "kept" },
  });
  const [words, , size, ...descriptors] = stdout.trim().split("\n");
  expect(words).toBe("zero one kept");
  expect(Number(size?.split("\t")[1])).toBeGreaterThan(256);
  expect(descriptors.map(Number).every((descriptor) => descriptor < 256)).toBe(true);
  await expect(runProgram(prewarmer, ["/nonexistent", "x"])).rejects.toThrow("exit code 127");
});
