import { cp, mkdir, realpath } from "node:fs/promises";
import { unlessMissing } from "../../local/files.ts";
import { dirname, join } from "node:path";
import { delay } from "../../base/clock.ts";
import { RametError, textOfError } from "../../base/errors.ts";
import type { GuestClient } from "../../cell/client/guest-client.ts";
import { goferName, sideProgramsName } from "../../cell/sandbox/saved-image.ts";
import { guestInContainer } from "../../cell/server/container-access.ts";
import { cellSetting } from "../../cell/setting/cell-setting.ts";
import { acquireTools, type AcquireOptions } from "../../local/tools/acquire-tools.ts";
import { exitCodes } from "../report-error.ts";
import { type Io, lineWriter, printLine } from "../io.ts";
import { runCommand } from "../sandbox/run-command.ts";

export interface CellExecOptions {
  command: [string, ...string[]];
  /** Wait for the sandbox, and do nothing in a clone: the restored state already contains the effect of the command. */
  atStart?: boolean;
}

const pollMilliseconds = 50;

/** `ramet cell exec`: runs the command of a probe or hook, which the kubelet starts in the cell's container, in the sandbox. */
export async function execBesideCell(io: Io, { command, atStart = false }: CellExecOptions): Promise<number> {
  const { config, paths } = cellSetting(io.environment);
  if (atStart && config.start === "wait") return exitCodes.ok;
  const guest = atStart ? await startedGuest(io, paths.directory) : await guestInContainer(paths.directory, io.signal);
  return runCommand(io, guest, { command, terminal: undefined });
}

/** Without a timeout: the kubelet limits the time of the command. */
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

/** `ramet cell setup`: copies the programs of the cell image that are not part of the package. Prints the path of each. */
export async function setUpCell(
  { clock, signal, stdout, stderr }: Io,
  { directory }: { directory: string },
): Promise<void> {
  const progress = lineWriter(stderr);
  for (const path of await placeCellPrograms(directory, { clock, signal, progress })) printLine(stdout, path);
}

const names = ["runsc", "ramet-guest", "ramet-link"] as const;

/**
 * Copies the programs that a cell runs into a directory: gVisor, guest and link, and below `gvisor-bin` gVisor's side programs with
 * Ramet's gofer in place of gVisor's. Replaces existing files.
 * @throws RametError `ToolMissing`, `InvalidArgument` if the directory is not writable, `Canceled`
 */
async function placeCellPrograms(
  directory: string,
  options: Pick<AcquireOptions<string>, "clock" | "signal" | "progress">,
): Promise<string[]> {
  const tools = await acquireTools({ ...options, names: [...names, "ramet-gofer"] });
  const own = join(dirname(await realpath(tools.runsc)), sideProgramsName);
  const gofer = join(directory, sideProgramsName, goferName);
  try {
    await mkdir(join(directory, sideProgramsName), { recursive: true });
    for (const name of names) await cp(await realpath(tools[name]), join(directory, name));
    await cp(own, join(directory, sideProgramsName), { recursive: true }).catch(unlessMissing);
    await cp(await realpath(tools["ramet-gofer"]), gofer);
  } catch (error) {
    throw new RametError("InvalidArgument", `Writing to ${directory} failed: ${textOfError(error)}`, { cause: error });
  }
  return [...names.map((name) => join(directory, name)), gofer];
}
