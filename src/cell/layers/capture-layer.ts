import { lstatSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { setImmediate as immediate } from "node:timers/promises";
import { layerBytesOf } from "../../api/wire/cell-api.ts";
import type { Clock } from "../../base/clock.ts";
import { RametError } from "../../base/errors.ts";
import { within } from "../../base/within.ts";
import { layerFile } from "../../store/manifest.ts";
import type { ChangesResult, GuestControl } from "../client/guest-control.ts";
import { hasOwnTmp } from "../sandbox/oci-spec.ts";
import { layerFile as layerPrefix } from "../sandbox/root-directories.ts";
import type { Sandbox } from "../sandbox/sandbox.ts";
import type { CellSetting } from "../setting/cell-setting.ts";

interface LayerSubject {
  sandbox: Pick<Sandbox, "writtenBytes" | "rootPath">;
  guest: Pick<GuestControl, "changes" | "unlisted">;
  setting: Pick<CellSetting, "container">;
  clock: Clock;
}

/** The slowest pace at which the guest writes a layer, and the time for the list of a large image. */
const leastBytesPerMillisecond = 10 * 1024;
const leastMilliseconds = 300_000;
/** The headers of a layer, and its files on /tmp. The holes of sparse files count, so that no sandbox fills the disk of a store. */
const overheadBytes = 1024 ** 3;

/**
 * Writes a layer with what the sandbox has changed since it started into `imagePath`. Programs keep running: what they change
 * meanwhile has its old or its new content.
 * @throws RametError `QuotaExceeded` above `maxBytes`, `CheckpointTooLarge` above what a layer may have at most, `Timeout`, `Internal` with the guest's reason
 */
export async function captureLayer(
  { sandbox, guest, setting, clock }: LayerSubject,
  imagePath: string,
  maxBytes = Infinity,
): Promise<ChangesResult> {
  const milliseconds = leastMilliseconds + (await sandbox.writtenBytes()) / leastBytesPerMillisecond;
  const withTmp = hasOwnTmp(setting.container);
  const mostBytes = layerBytesOf(setting.container) + overheadBytes;
  return within({ clock, milliseconds, what: "Writing a layer" }, async (signal) => {
    const base = await rootList(sandbox.rootPath, (list) => guest.unlisted(list, { withTmp, signal }));
    const limits = { withTmp, maxBytes: Math.min(maxBytes, mostBytes), signal };
    return guest.changes(base, join(imagePath, layerFile), limits);
  }).catch((thrown: unknown) => {
    const error = RametError.from(thrown);
    throw error.code === "QuotaExceeded" && mostBytes < maxBytes ? aboveLayer(error) : error;
  });
}

/** No quota of the namespace is exceeded, so raising one would not help. */
function aboveLayer(cause: RametError): RametError {
  return new RametError("CheckpointTooLarge", cause.message, {
    hint: "Delete large or sparse files in the sandbox, or raise the container's resources.limits.ephemeral-storage",
    cause,
  });
}

/**
 * Lists the changed directories of a root as they were before the sandbox wrote to it, for `GuestControl.changes`: what the sandbox
 * writes is in one file of gVisor, so the directory on the host stays as it was. Names are bytes, here as latin1: not all are UTF-8.
 * @param unlisted the guest's answer: directories that were changed and that a list lacks. Only entries of the root are listed, whatever it is
 */
async function rootList(rootPath: string, unlisted: (list: Buffer) => Promise<string[]>): Promise<Buffer> {
  const root = bytes(`${rootPath}/`).toString("latin1");
  const found = new Map<string, boolean>();
  let list: Buffer = Buffer.concat(await entriesIn(root, "", found));
  for (;;) {
    const asked = (await unlisted(list)).flatMap((path) => {
      const isDirectory = found.get(path);
      found.delete(path);
      return isDirectory === undefined ? [] : [{ path, isDirectory }];
    });
    if (asked.length === 0) return list;
    const added: Buffer[] = [list];
    for (const { path, isDirectory } of asked) {
      added.push(bytes(`0 ${path}/\0`));
      if (isDirectory) added.push(...(await entriesIn(root, `${path}/`, found)));
    }
    list = Buffer.concat(added);
  }
}

async function entriesIn(root: string, directory: string, found: Map<string, boolean>): Promise<Buffer[]> {
  const listed: Buffer[] = [];
  for (const name of readdirSync(bytes(root + directory), { encoding: "latin1" })) {
    if (directory === "" && name.startsWith(layerPrefix)) continue;
    const path = directory + name;
    // Asynchronous calls take five times as long.
    const stats = lstatSync(bytes(root + path), { bigint: true });
    found.set(path, stats.isDirectory());
    listed.push(bytes(`${stats.ctimeNs} ${path}\0`));
    // The cell has other calls to answer.
    if (listed.length % atOnce === 0) await immediate();
  }
  return listed;
}

const atOnce = 500;

function bytes(text: string): Buffer {
  return Buffer.from(text, "latin1");
}
