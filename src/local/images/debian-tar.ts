import { hash } from "node:crypto";
import { mkdir, readdir, readFile, rename, rm, stat } from "node:fs/promises";
import { userInfo } from "node:os";
import { delimiter, dirname, join } from "node:path";
import { RametError, resultOr } from "../../base/errors.ts";
import { isExecutable } from "../tools/find-installed.ts";
import type { ProgressLine } from "../tools/progress.ts";
import { runProgram } from "../tools/run-program.ts";
import { isRoot } from "./unpack-tar.ts";

export interface DebianTarOptions {
  /** The tar to write. */
  path: string;
  /** A working directory. mmdebstrap is unpacked into it if it is not installed. */
  work: string;
  line: ProgressLine;
  /** The recipe, which the image names in its file {@link recipeFile}. */
  recipe: DebianRecipe;
  signal?: AbortSignal | undefined;
}

/** How the tar is made: arguments of mmdebstrap, and their digest. */
export interface DebianRecipe {
  installs: boolean;
  args: readonly string[];
  digest: string;
}

/** The file of the image with the digest of its recipe. */
export const recipeFile = join("usr", "share", "ramet", "recipe");

/**
 * Returns how a tar is made on this machine. The digest is the same on all machines.
 *
 * @param more packages whose scripts must run, besides the common ones
 * @throws RametError `HostUnsupported` if there are any, and this machine can only unpack packages
 */
export async function debianRecipe(more: readonly string[] = []): Promise<DebianRecipe> {
  const installs = await canInstall();
  if (!installs && more.length > 0) {
    throw new RametError("HostUnsupported", "this user cannot install Debian packages", {
      hint: "Run it as root, or install uidmap and give the user a range in /etc/subuid and /etc/subgid",
    });
  }
  const additional = more.length === 0 ? [] : [`--include=${more.join(",")}`, ...forMore];
  const recipe = JSON.stringify([common, installed, extracted, suite, ...additional]);
  const digest = `sha256:${hash("sha256", recipe)}`;
  return { installs, args: [...common, ...(installs ? [...installed, ...additional] : extracted), suite], digest };
}

/**
 * Writes a tar of a Debian root filesystem with the programs and the user of E2B's template `base`, built from the package archive
 * that this machine's apt uses.
 */
export async function makeDebianTar({ path, work, line, recipe, signal }: DebianTarOptions): Promise<void> {
  const { program, before, environment } = await findMmdebstrap(work, line, signal);
  const { installs, args, digest } = recipe;
  line.doing(`building a Debian root filesystem with Python 3, once (about ${installs ? 120 : 40} s)`);
  const named = hook(installs, `mkdir "$1/usr/share/ramet" && echo ${digest} >"$1/${recipeFile}"`);
  await runProgram(program, [...before, ...args, named, path, ...(await archiveSources())], {
    what: "mmdebstrap",
    environment: { ...environment, TMPDIR: work, LC_ALL: "C.UTF-8" },
    signal,
  });
}

const suite = "bookworm";
const common = [
  "--quiet",
  // A tar, because mmdebstrap of an ordinary user cannot write a directory that the user owns.
  "--format=tar",
  // Documentation and translations are half of the size.
  "--dpkgopt=path-exclude=/usr/share/man/*",
  "--dpkgopt=path-exclude=/usr/share/doc/*",
  "--dpkgopt=path-include=/usr/share/doc/*/copyright",
  "--dpkgopt=path-exclude=/usr/share/locale/*",
];

/** For languages. */
const forMore = [
  // Java's scripts fail without the directory of its manual pages.
  '--essential-hook=mkdir -p "$1/usr/share/man/man1"',
  // A third of a JDK: modules from which others build runtimes.
  "--dpkgopt=path-exclude=/usr/lib/jvm/*/jmods/*",
];

const works = 'python3 -c "import http.server, json, socket"';

/** Programs that agents call in a sandbox, as E2B's template `base` has them. */
const programs = "ca-certificates,curl,gcc,git,libc6-dev,make,procps,python3,python3-pip,python3-venv,sudo,unzip";

/** The user of E2B's clients. It has no password, so `sudo` needs no shadow file. */
const account = [
  'echo "user:*:1000:1000::/home/user:/bin/bash" >>"$1/etc/passwd"',
  'echo "user:x:1000:" >>"$1/etc/group"',
  'cp -R "$1/etc/skel" "$1/home/user" && { chown -R 1000:1000 "$1/home/user" 2>/dev/null || true; }',
  'echo "user ALL=(ALL:ALL) NOPASSWD: ALL" >"$1/etc/sudoers.d/user" && chmod 440 "$1/etc/sudoers.d/user"',
  'ln -s python3 "$1/usr/bin/python"',
  // The profile starts for each command. This program takes longer than the shell.
  `sed -i 's/"$(id -u)"/"\${EUID:-$(id -u)}"/' "$1/etc/profile"`,
  // `pip install` works without a virtual environment, as in the images of python.org.
  'rm "$1"/usr/lib/python3*/EXTERNALLY-MANAGED',
];

/** Only the one that unpacks has no other. */
function hook(installs: boolean, command: string): string {
  return `--${installs ? "customize" : "extract"}-hook=${command}`;
}

/** Runs the packages' installation scripts, as root inside the root filesystem. */
const installed = [
  "--variant=minbase",
  `--include=${programs}`,
  ...[...account, `chroot "$1" ${works}`].map((command) => hook(true, command)),
];

const certificates = '"$1/etc/ssl/certs/ca-certificates.crt"';

/**
 * Unpacks packages without running their scripts, for a user with a single user id, and creates the few files that the
 * scripts would create. Python and the shell tools work; `apt install` does not.
 */
const extracted = [
  "--mode=chrootless",
  "--variant=extract",
  `--include=${programs},base-files,base-passwd,bash,dash,coreutils,findutils,grep,gzip,hostname,libc-bin,libstdc++6,mawk,sed,tar`,
  ...[
    'cp "$1/usr/share/base-passwd/passwd.master" "$1/etc/passwd"',
    'cp "$1/usr/share/base-passwd/group.master" "$1/etc/group"',
    'cp "$1/usr/share/base-files/profile" "$1/etc/profile"',
    'mkdir -p "$1/root" "$1/proc" "$1/sys" "$1/run" && chmod 1777 "$1/tmp"',
    'test -e "$1/bin/sh" || ln -s dash "$1/bin/sh"',
    'test -e "$1/usr/bin/awk" || ln -s mawk "$1/usr/bin/awk"',
    `mkdir -p "$1/etc/ssl/certs" && cat "$1"/usr/share/ca-certificates/mozilla/*.crt >${certificates}`,
    ...account,
    `! unshare --map-root-user true || unshare --map-root-user chroot "$1" ${works}`,
  ].map((command) => hook(false, command)),
];

/** Whether mmdebstrap can install packages here: as root, with a subordinate range of user ids, or with fakechroot. */
async function canInstall(): Promise<boolean> {
  if (isRoot()) return true;
  const ranges = await readFile("/etc/subuid", "utf8").catch(() => "");
  const names = [userName(), `${process.getuid?.()}`];
  const hasRange = ranges.split("\n").some((line) => names.includes(line.split(":")[0]));
  if (hasRange && (await isExecutable("/usr/bin/newuidmap"))) return true;
  return (await isExecutable("/usr/bin/fakechroot")) && (await isExecutable("/usr/bin/fakeroot"));
}

/** Absent if the user has no name, as in a container that runs as a numeric user. */
function userName(): string | undefined {
  return resultOr(() => userInfo().username, undefined);
}

/** The machine's list of package archives, which may name a mirror. None: mmdebstrap uses its default. */
async function archiveSources(): Promise<string[]> {
  const candidates = ["/etc/apt/sources.list.d/debian.sources", "/etc/apt/sources.list"];
  for (const path of candidates) {
    if (((await stat(path).catch(() => undefined))?.size ?? 0) > 0) return [path];
  }
  return [];
}

/**
 * Finds the installed `mmdebstrap`, or unpacks its Debian package into `work`. It is a Perl script that needs apt, dpkg,
 * Perl's standard modules, Python, and the filter of its package on `PATH`.
 * @returns the program, with its arguments before mmdebstrap's own
 */
async function findMmdebstrap(work: string, line: ProgressLine, signal?: AbortSignal) {
  const installed = "/usr/bin/mmdebstrap";
  if (await isExecutable(installed)) return { program: installed, before: [], environment: {} };
  const unpacked = join(work, "mmdebstrap");
  const script = join(unpacked, "usr", "bin", "mmdebstrap");
  if (!(await isExecutable(script))) {
    line.doing("unpacking mmdebstrap from its Debian package");
    await unpackDebianPackage("mmdebstrap", unpacked, signal);
  }
  const path = [dirname(script), process.env["PATH"] ?? "/usr/bin:/bin"].join(delimiter);
  return { program: "perl", before: [script], environment: { PATH: path } };
}

/** Downloads a package with the machine's apt, and unpacks it into a directory that does not exist. */
export async function unpackDebianPackage(name: string, target: string, signal?: AbortSignal): Promise<void> {
  const directory = join(dirname(target), `making-${name}`);
  await rm(directory, { recursive: true, force: true });
  await mkdir(directory, { recursive: true });
  await runProgram("apt-get", ["download", name], { signal, cwd: directory, what: `apt-get download ${name}` });
  const [archive = `${name}.deb`] = await readdir(directory);
  await runProgram("dpkg-deb", ["-x", join(directory, archive), join(directory, "root")], { signal });
  await rename(join(directory, "root"), target);
  await rm(directory, { recursive: true, force: true });
}
