import { processIo } from "./process-io.ts";
import { runProgram } from "./program.ts";

const io = processIo();
// Writers get the error when the reader has exited (`ramet sandbox ls | head -1`). Without a listener the process would crash.
io.stdout.on("error", () => undefined);
const exitCode = await runProgram(io, process.argv.slice(2));
// Flush the pipes, then exit: idle connections would keep the process running.
io.stdout.write("", () => io.stderr.write("", () => process.exit(exitCode)));
