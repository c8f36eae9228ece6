import { runProgram } from "./program.ts";
import { systemClock } from "../base/clock.ts";
import type { Io, Terminal } from "./io.ts";

const io = processIo();
// Writers get the error when the reader has exited (`ramet sandbox ls | head -1`). Without a listener the process would crash.
io.stdout.on("error", () => undefined);
const exitCode = await runProgram(io, process.argv.slice(2));
// Flush the pipes, then exit: idle connections would keep the process running.
io.stdout.write("", () => io.stderr.write("", () => process.exit(exitCode)));

/** The io of this process. Call it once: it takes over the signals. */
function processIo(): Io {
  const { stdin, stdout, stderr } = process;
  const aborter = new AbortController();
  const abort = (): void => {
    aborter.abort();
  };
  const takers: ((signal: NodeJS.Signals) => void)[] = [];
  for (const name of ["SIGINT", "SIGTERM", "SIGHUP"] as const) {
    process.on(name, () => {
      // The second Ctrl-C ends a command that does not respond to the first one.
      if (name === "SIGINT" && aborter.signal.aborted && takers.length === 0 && stderr.isTTY) endBy(name);
      (takers.at(-1) ?? abort)(name);
    });
  }
  return {
    stdin,
    stdout,
    stderr,
    progressIsSeen: stderr.isTTY,
    ...(stderr.isTTY ? { progressColumns: () => stderr.columns } : {}),
    ...(stdin.isTTY && stdout.isTTY ? { terminal: terminalOf(stdin, stdout) } : {}),
    environment: process.env,
    signal: aborter.signal,
    takeSignals(listener) {
      takers.push(listener);
      return () => {
        takers.splice(takers.lastIndexOf(listener), 1);
      };
    },
    clock: systemClock,
  };
}

/** As the signal does without a listener. */
function endBy(name: NodeJS.Signals): void {
  process.removeAllListeners(name);
  process.kill(process.pid, name);
}

function terminalOf(stdin: typeof process.stdin, stdout: typeof process.stdout): Terminal {
  return {
    size: () => ({ columns: stdout.columns, rows: stdout.rows }),
    onResize: (listener) => {
      stdout.on("resize", listener);
      return () => stdout.off("resize", listener);
    },
    setRaw: (raw) => {
      stdin.setRawMode(raw);
    },
  };
}
