import { randomBytes } from "node:crypto";
import { link, mkdir, readFile, stat, unlink, writeFile } from "node:fs/promises";
import { dirname } from "node:path";
import * as z from "zod";
import { RametError } from "../../base/errors.ts";
import { delay, type Clock } from "../../base/clock.ts";
import { unlessMissing } from "../files.ts";
import { identifyProcess, isProcessRunning, ProcessIdentity } from "../../base/process-identity.ts";

export interface LockOptions {
  clock: Clock;
  signal?: AbortSignal | undefined;
  /** Called once if another process has the lock, with its process id. */
  onWait?: (pid: number) => void;
}

/**
 * Runs `work` while this process holds the lock file. The file identifies the process by process id, start time and boot, so
 * that the lock of a process that has ended can be taken over.
 */
export async function withLock<T>(path: string, options: LockOptions, work: () => Promise<T>): Promise<T> {
  await mkdir(dirname(path), { recursive: true });
  const self = identifyProcess(process.pid);
  if (self === undefined) throw new RametError("HostUnsupported", "Locking failed: /proc is not mounted");
  const owner: Owner = { ...self, nonce: randomBytes(8).toString("hex") };
  // Written first and then linked, so that the lock file is never empty.
  const mine = `${path}.${owner.nonce}`;
  await writeFile(mine, JSON.stringify(owner));
  try {
    await obtain(path, mine, options);
  } finally {
    await unlink(mine);
  }
  try {
    return await work();
  } finally {
    await unlink(path);
  }
}

const Owner = ProcessIdentity.extend({ nonce: z.string() });
type Owner = z.infer<typeof Owner>;

async function obtain(path: string, mine: string, { clock, signal, onWait }: LockOptions): Promise<void> {
  let reported = false;
  while (!(await linked(mine, path))) {
    const other = await readOwner(path);
    if (other === undefined) continue;
    if (!isProcessRunning(other)) {
      await breakLock(path, other, clock);
      continue;
    }
    if (!reported) onWait?.(other.pid);
    reported = true;
    await delay(clock, 100, signal);
  }
}

/**
 * Removes the lock of a process that has ended. If several processes see it, only the one that creates the claim
 * removes it, and only if the lock has not changed: the new lock of a faster process is never removed.
 */
async function breakLock(path: string, owner: Owner, clock: Clock): Promise<void> {
  const claim = `${path}.broken-${owner.nonce}`;
  if (await linked(path, claim)) {
    if ((await readOwner(claim))?.nonce === owner.nonce) await unlink(path).catch(unlessMissing);
    await unlink(claim).catch(unlessMissing);
    return;
  }
  // Another process holds the claim, or was killed while it held it.
  const claimedAt = await stat(claim).then(
    (found) => found.ctimeMs,
    () => Infinity,
  );
  if (clock.now().getTime() - claimedAt > 10_000) await unlink(claim).catch(unlessMissing);
  else await delay(clock, 20);
}

async function linked(from: string, to: string): Promise<boolean> {
  try {
    await link(from, to);
    return true;
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code === "EEXIST" || code === "ENOENT") return false;
    throw error;
  }
}

async function readOwner(path: string): Promise<Owner | undefined> {
  const text = await readFile(path, "utf8").catch(() => undefined);
  return text === undefined ? undefined : Owner.parse(JSON.parse(text));
}
