import { execFile } from "node:child_process";
import { createHash } from "node:crypto";
import { access, readFile, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";
import { systemClock } from "../../src/base/clock.ts";
import { withLock } from "../../src/local/tools/lock.ts";
import { cacheDirectory } from "../../src/local/tools/tool.ts";

/** The packages of `python/requirements-<sdk>.txt`: the current `e2b` and `e2b-code-interpreter`, `e2b` 2.15.0, `agenttier`, or and `sandbox0` 0.9 and 0.10. */
export type PythonSdk = "current" | "2.15" | "agenttier" | "sandbox0-0.9" | "sandbox0-0.10";

export interface PythonProgram {
  /** @default "current" */
  sdk?: PythonSdk;
  args?: string[];
  /** Added to this process's environment: usually `await world.environment()`. */
  environment: Record<string, string>;
  /** The beginning of the command, which runs the rest. @default none */
  through?: readonly string[];
  /** After this time the program is interrupted, and the error shows what it was doing. @default 120 */
  seconds?: number;
}

/** What every SDK of E2B for Python can do, with the program that does it. */
export const sandboxPrograms = [
  ["runs commands, serves files, and finds and deletes sandboxes", "sandbox.py"],
  ["pauses and resumes a sandbox with its processes", "pause.py"],
  ["creates sandboxes from a snapshot with its memory", "snapshot.py"],
  ["uses several sandboxes concurrently", "async_sandboxes.py"],
] as const;

const run = promisify(execFile);
const programs = join(import.meta.dirname, "python");

/**
 * Runs a program of `test/clients/python` with an SDK, and returns what it printed.
 *
 * @throws if the program fails, with everything that it printed
 */
export async function runPython(
  file: string,
  { sdk = "current", args = [], environment, through = [], seconds = 120 }: PythonProgram,
): Promise<string> {
  const python = await acquirePython(sdk);
  const limited = [
    "--signal=INT",
    "--kill-after=10",
    String(seconds),
    ...through,
    python,
    "-B",
    "-u",
    join(programs, file),
  ];
  try {
    const { stdout } = await run("timeout", [...limited, ...args], {
      env: { ...process.env, ...environment },
      maxBuffer: 64 << 20,
    });
    return stdout;
  } catch (cause) {
    const { code, stdout = "", stderr = "" } = cause as { code?: unknown; stdout?: string; stderr?: string };
    const why = code === 124 ? `it did not end within ${seconds} s` : `exit code ${String(code)}`;
    throw new Error(`${file} failed: ${why}\n${stdout}${stderr}`, { cause });
  }
}

/**
 * Returns the path of a Python that has the packages of an SDK. Installs them into a virtual environment in the user's cache on
 * first use: about 10 s.
 */
export async function acquirePython(sdk: PythonSdk): Promise<string> {
  const requirements = join(programs, `requirements-${sdk}.txt`);
  const base = await findPython();
  const digest = createHash("sha256").update(await readFile(requirements));
  const parent = join(cacheDirectory(), "tools", "e2b-python");
  const directory = join(parent, `${sdk}-${digest.update(base).digest("hex").slice(0, 16)}`);
  const python = join(directory, "bin", "python");
  const complete = join(directory, "complete");
  await withLock(`${directory}.lock`, { clock: systemClock }, async () => {
    if (await exists(complete)) return;
    await rm(directory, { recursive: true, force: true });
    await run(base, ["-m", "venv", directory]).catch((cause: unknown) => {
      throw new Error(`Creating a virtual environment of Python failed: ${printedBy(cause)}; install python3-venv`, {
        cause,
      });
    });
    const install = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--only-binary=:all:"];
    await run(python, [...install, "-r", requirements]).catch((cause: unknown) => {
      throw new Error(`Installing ${requirements} failed: ${printedBy(cause)}`, { cause });
    });
    await writeFile(complete, "");
  });
  return python;
}

/** A Python on the `PATH` that the SDKs support. */
async function findPython(): Promise<string> {
  for (const name of ["python3", "python3.14", "python3.13", "python3.12", "python3.11", "python3.10"]) {
    const found = await run(name, [
      "-c",
      "import sys; print(sys.executable if sys.version_info >= (3, 10) else '')",
    ]).then(
      ({ stdout }) => stdout.trim(),
      () => "",
    );
    if (found !== "") return found;
  }
  throw new Error("The tests with SDKs for Python need Python 3.10 or newer: install python3 and python3-venv");
}

function printedBy(error: unknown): string {
  const { stderr = "", message = "" } = error as { stderr?: string; message?: string };
  return (stderr.trim() || message).split("\n").slice(-8).join("\n");
}

async function exists(path: string): Promise<boolean> {
  return access(path).then(
    () => true,
    () => false,
  );
}
