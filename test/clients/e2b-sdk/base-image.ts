import { mkdir, rename, rm } from "node:fs/promises";
import { join } from "node:path";
import { systemClock } from "../../../src/base/clock.ts";
import { makeDebianTar } from "../../../src/local/images/debian-tar.ts";
import { openImageStore } from "../../../src/local/images/image-store.ts";
import { withLock } from "../../../src/local/tools/lock.ts";
import { progressLine } from "../../../src/local/tools/progress.ts";
import { cacheDirectory } from "../../../src/local/tools/tool.ts";
import { isFile } from "./is-file.ts";

const version = "1";

/** The programs of E2B's template `base` that the tests use. */
const more = [
  "--include=git,curl,ca-certificates,procps,sudo,adduser",
  '--customize-hook=chroot "$1" useradd --create-home --shell /bin/bash user',
  '--customize-hook=echo "user ALL=(ALL:ALL) NOPASSWD: ALL" >"$1/etc/sudoers.d/user"',
  '--customize-hook=chmod 440 "$1/etc/sudoers.d/user"',
  '--customize-hook=ln -s python3 "$1/usr/bin/python"',
];

/** Adds a stand-in of E2B's base image to the images of a cluster, under each of the names. Built once: about two minutes. */
export async function addBaseImage(environment: NodeJS.ProcessEnv, names: readonly string[]): Promise<void> {
  const tar = await baseTar();
  const store = openImageStore({ dir: join(cacheDirectory(environment), "images") });
  const env = ["PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "LANG=C.UTF-8"];
  for (const name of names) await store.add(name, tar, { config: { env, cmd: ["sleep", "infinity"] } });
}

async function baseTar(): Promise<string> {
  const directory = join(cacheDirectory(), "test-images", `e2b-base-${version}`);
  const path = join(directory, "root.tar");
  await mkdir(directory, { recursive: true });
  await withLock(join(directory, "lock"), { clock: systemClock }, async () => {
    if (await isFile(path)) return;
    const making = join(directory, "making.tar");
    await rm(making, { force: true });
    const line = progressLine("image e2b-base", console.error, systemClock);
    try {
      await makeDebianTar({ path: making, work: join(cacheDirectory(), "debian"), line, more });
    } finally {
      line.stop();
    }
    await rename(making, path);
  });
  return path;
}
