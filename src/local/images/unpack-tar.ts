import { spawn } from "node:child_process";
import { lstat, readlink } from "node:fs/promises";
import { join, sep } from "node:path";
import { RametError } from "../../base/errors.ts";
import { runProgram } from "../tools/run-program.ts";

/**
 * Unpacks a tar stream into an empty folder and nowhere else. GNU tar sees to that as long as the folder is empty at the
 * start: it takes `/` and `..` off names, and makes links that lead out only after everything else, so that no file can
 * be written through one. What stands in `dev`, `proc` and `sys` is left out: a sandbox brings its own.
 *
 * Owners are kept as numbers for root; an ordinary user becomes the owner of everything.
 */
export async function unpackTar(input: NodeJS.ReadableStream, directory: string, signal?: AbortSignal): Promise<void> {
  const owners = isRoot() ? ["--same-owner"] : ["--no-same-owner"];
  const leftOut = ["dev", "proc", "sys"].flatMap((name) => [`--exclude=./${name}/*`, `--exclude=${name}/*`]);
  await runProgram(
    "tar",
    [
      "-x",
      "-f",
      "-",
      "-C",
      directory,
      "--numeric-owner",
      "-p",
      "--delay-directory-restore",
      ...owners,
      "--anchored",
      ...leftOut,
    ],
    { input, what: "Unpacking the image", ...(signal && { signal }) },
  ).catch((error: unknown) => {
    throw error instanceof RametError && error.code === "Internal" ? notUnpacked(error) : error;
  });
  // So that its owner can read all of it and remove it again.
  if (!isRoot()) await runProgram("chmod", ["-R", "u+rwX", directory]);
}

function notUnpacked(cause: RametError): RametError {
  return new RametError("InvalidArgument", cause.message, {
    hint: "Give a root folder, a tar of one (plain, gzip or Zstandard), or an OCI image layout.",
    cause,
  });
}

/** Copies a folder as `unpackTar` would unpack it; it does not go into other file systems that are mounted in it. */
export async function copyDirectory(source: string, target: string, signal?: AbortSignal): Promise<void> {
  const leftOut = ["./dev/*", "./proc/*", "./sys/*"].map((pattern) => `--exclude=${pattern}`);
  const args = ["-c", "-f", "-", "-C", source, "--numeric-owner", "--one-file-system", "--anchored", ...leftOut, "."];
  const tar = spawn("tar", args, { stdio: ["ignore", "pipe", "pipe"] });
  let said = "";
  tar.stderr.setEncoding("utf8").on("data", (text: string) => (said += text));
  const ended = new Promise<string | undefined>((resolve) => {
    tar.once("error", (error) => {
      resolve(error.message);
    });
    tar.once("close", (code) => {
      resolve(code === 0 ? undefined : said.trim().split("\n").slice(-3).join("; "));
    });
  });
  try {
    await unpackTar(tar.stdout, target, signal);
  } catch (error) {
    tar.kill();
    throw error;
  }
  const failure = await ended;
  if (failure !== undefined) {
    throw new RametError("InvalidArgument", `Reading the folder ${source} failed: ${failure}`, {
      hint: "Every file in it must be readable; as an ordinary user, make a tar of it as root and add that.",
    });
  }
}

/** Whether files can be given to other users here. */
export function isRoot(): boolean {
  return process.getuid?.() === 0;
}

/**
 * Follows a path the way a process whose root is `root` would: absolute links begin at `root`, and `..` does not lead out
 * of it. Returns the folder that it ends at, with no link left in it, or nothing if it does not end at a folder.
 */
export async function directoryInside(root: string, path: string): Promise<string | undefined> {
  const left = path.slice(root.length).split(sep);
  const at: string[] = [];
  // As many links as Linux itself follows (path_resolution(7)).
  for (let links = 0; left.length > 0;) {
    const name = left.shift();
    if (name === undefined || name === "" || name === ".") continue;
    if (name === "..") {
      at.pop();
      continue;
    }
    const found = await lstat(join(root, ...at, name)).catch(() => undefined);
    if (found?.isSymbolicLink() === true) {
      links += 1;
      if (links > 40) return undefined;
      const target = await readlink(join(root, ...at, name));
      if (target.startsWith(sep)) at.length = 0;
      left.unshift(...target.split(sep));
    } else if (found?.isDirectory() === true) at.push(name);
    else return undefined;
  }
  return join(root, ...at);
}
