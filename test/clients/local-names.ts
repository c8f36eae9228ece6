import { lookup } from "node:dns/promises";
import { access, mkdir, rename, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { systemClock } from "../../src/base/clock.ts";
import { withLock } from "../../src/local/tools/lock.ts";
import { runProgram } from "../../src/local/tools/run-program.ts";
import { cacheDirectory } from "../../src/local/tools/tool.ts";

const version = "1";

/**
 * Returns the beginning of a command whose program resolves names below `localhost`, as it does on most machines. Where this
 * one does not, the program gets a mount namespace with Debian's libnss-myhostname, which is not installed but only unpacked
 * into the tool cache.
 */
export async function withLocalNames(): Promise<string[]> {
  if (await resolves("api.ramet.localhost")) return [];
  const directory = join(cacheDirectory(), "tools", "nss-myhostname", version);
  await withLock(`${directory}.lock`, { clock: systemClock }, async () => {
    if (await exists(directory)) return;
    const making = `${directory}.making`;
    await rm(making, { recursive: true, force: true });
    await mkdir(making, { recursive: true });
    await runProgram("apt-get", ["download", "libnss-myhostname"], { cwd: making });
    await runProgram("sh", ["-c", "dpkg-deb -x *.deb . && mv usr/lib/*/libnss_myhostname.so.2 ."], { cwd: making });
    await writeFile(join(making, "nsswitch.conf"), "passwd: files\ngroup: files\nhosts: files myhostname dns\n");
    await rename(making, directory);
  });
  const enter = process.getuid?.() === 0 ? ["unshare", "-m"] : ["unshare", "-U", "-r", "-m"];
  const script =
    'mount --bind "$0/nsswitch.conf" /etc/nsswitch.conf && LD_LIBRARY_PATH="$0" && export LD_LIBRARY_PATH && exec "$@"';
  return [...enter, "sh", "-c", script, directory];
}

async function resolves(name: string): Promise<boolean> {
  return lookup(name).then(
    () => true,
    () => false,
  );
}

async function exists(path: string): Promise<boolean> {
  return access(path).then(
    () => true,
    () => false,
  );
}
