import { randomBytes } from "node:crypto";
import { PassThrough } from "node:stream";
import type { GuestClient } from "../../src/cell/client/guest-client.ts";
import { memoryIo } from "../setup/memory-io.ts";
import { runCommand } from "../../src/cli/sandbox/run-command.ts";
import { Cells } from "../setup/cells.ts";

/**
 * `node test/bench/exec-input.ts [MiB]`: measures the input throughput of `ramet sandbox exec -i` to a command in a real cell,
 * and alternately the throughput with one call for each part (process.Process/SendInput).
 */
const sizeMiB = Number(process.argv[2] ?? 16);
const rounds = 5;
const part = randomBytes(64 * 1024); // the size of a read from a pipe
const partCount = sizeMiB * 16;

const cells = await Cells.open();
try {
  const cell = await cells.boot({ name: "input", container: { command: ["sleep", "3600"] } });
  const guest = cells.guestOf(cell);
  for (let round = 1; round <= rounds; round++) {
    const stream = await measured(() => byExec(guest));
    const calls = await measured(() => byCalls(guest));
    const ratio = (stream / calls).toFixed(1);
    console.log(
      `round ${round}: exec -i ${stream.toFixed(1)} MiB/s, a call a part ${calls.toFixed(1)} MiB/s, ratio ${ratio}`,
    );
  }
} finally {
  await cells.close();
}

/** MiB per second. */
async function measured(run: () => Promise<number>): Promise<number> {
  const started = performance.now();
  const read = await run();
  if (read !== sizeMiB * 2 ** 20) throw new Error(`the command read ${read} bytes`);
  return sizeMiB / ((performance.now() - started) / 1000);
}

async function byExec(guest: GuestClient): Promise<number> {
  const stdin = new PassThrough();
  const io = memoryIo({ stdin });
  const ended = runCommand(io, guest, { command: ["wc", "-c"], stdin: true, terminal: undefined });
  for (let sent = 0; sent < partCount; sent++) {
    if (!stdin.write(part)) await new Promise((resolve) => stdin.once("drain", resolve));
  }
  stdin.end();
  await ended;
  return Number(io.written("stdout"));
}

async function byCalls(guest: GuestClient): Promise<number> {
  let printed = "";
  for await (const event of guest.startProcess({ command: "wc", args: ["-c"], stdin: true })) {
    if (event.type === "data") printed += event.data.toString();
    if (event.type !== "start") continue;
    const { pid } = event;
    for (let sent = 0; sent < partCount; sent++) await guest.sendInput({ pid }, part);
    await guest.closeStdin({ pid });
  }
  return Number(printed);
}
