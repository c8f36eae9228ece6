import { processIo } from "./process-io.ts";
import { runProgram } from "./program.ts";

const io = processIo();
// A reader that went away (`ramet sandbox ls | head -1`) is told to whoever writes; without this the process would die of it.
io.stdout.on("error", () => undefined);
const exitCode = await runProgram(io, process.argv.slice(2));
// What is written to a pipe may still be on its way; connections that idle must not keep the process.
io.stdout.write("", () => io.stderr.write("", () => process.exit(exitCode)));
