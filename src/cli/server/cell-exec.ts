import { delay } from "../../base/clock.ts";
import { RametError } from "../../base/errors.ts";
import type { GuestClient } from "../../cell/client/guest-client.ts";
import { guestInContainer } from "../../cell/server/container-access.ts";
import { cellSetting } from "../../cell/setting/cell-setting.ts";
import { placeCellPrograms } from "../../local/cell-programs.ts";
import { exitCodes } from "../exit-codes.ts";
import { type Io, printLine } from "../io.ts";
import { runCommand } from "../sandbox/run-command.ts";

export interface CellExecOptions {
  command: [string, ...string[]];
  /** Wait for the sandbox, and do nothing in a clone: what the command did for the source is in what the clone goes on from. */
  atStart?: boolean;
}

const pollMilliseconds = 50;

/** `ramet cell exec`: what a kubelet runs in the cell's container for a probe or hook, in the sandbox instead. */
export async function execBesideCell(io: Io, { command, atStart = false }: CellExecOptions): Promise<number> {
  const { config, paths } = cellSetting(io.environment);
  if (atStart && config.start === "wait") return exitCodes.ok;
  const guest = atStart ? await startedGuest(io, paths.directory) : await guestInContainer(paths.directory, io.signal);
  return runCommand(io, guest, { command, terminal: undefined });
}

/** Whoever started the command bounds how long it may take. */
async function startedGuest(io: Io, directory: string): Promise<GuestClient> {
  for (;;) {
    try {
      const guest = await guestInContainer(directory, io.signal);
      await guest.listProcesses();
      return guest;
    } catch (error) {
      if (!notYet.has(RametError.from(error).code)) throw error;
      await delay(io.clock, pollMilliseconds, io.signal);
    }
  }
}

const notYet: ReadonlySet<string> = new Set(["SandboxNotReady", "GuestUnreachable", "Unavailable"]);

/** `ramet cell setup`: what the image of the cell has beside the package. Prints the path of each program. */
export async function setUpCell({ clock, signal, stdout, stderr }: Io, directory: string): Promise<number> {
  const progress = (line: string): void => {
    printLine(stderr, line);
  };
  for (const path of await placeCellPrograms(directory, { clock, signal, progress })) printLine(stdout, path);
  return exitCodes.ok;
}
