import { spawn } from "node:child_process";
import { once } from "node:events";
import { text } from "node:stream/consumers";
import { RametError, textOfError } from "../../base/errors.ts";
import { runProgram } from "../tools/run-program.ts";

/**
 * Unpacks a tar stream into an empty directory. GNU tar writes nothing outside of it if it is empty at the start: tar
 * removes `/` and `..` from names, and creates links to outside last, so that no file is written through one. The contents
 * of `dev`, `proc` and `sys` are skipped: a sandbox mounts its own.
 *
 * Root keeps the numeric owners; an ordinary user becomes the owner of all files.
 */
export async function unpackTar(input: NodeJS.ReadableStream, directory: string, signal?: AbortSignal): Promise<void> {
  const owners = isRoot() ? ["--same-owner"] : ["--no-same-owner"];
  const excluded = ["dev", "proc", "sys"].flatMap((name) => [`--exclude=./${name}/*`, `--exclude=${name}/*`]);
  const place = ["-x", "-f", "-", "-C", directory, "--numeric-owner", "-p", "--delay-directory-restore"];
  const args = [...place, ...owners, "--anchored", ...excluded];
  await runProgram("tar", args, { input, what: "Unpacking the image", signal }).catch((cause: unknown) => {
    if (!(cause instanceof RametError) || cause.code !== "Internal") throw cause;
    throw new RametError("InvalidArgument", cause.message, {
      hint: "Pass a root directory, a tar of one (plain, gzip or Zstandard), or an OCI image layout",
      cause,
    });
  });
  // The owner must be able to read and remove everything.
  if (!isRoot()) await runProgram("chmod", ["-R", "u+rwX", directory]);
}

/** Copies a directory as `unpackTar` would unpack it, without other file systems that are mounted below it. */
export async function copyDirectory(source: string, target: string, signal?: AbortSignal): Promise<void> {
  const excluded = ["./dev/*", "./proc/*", "./sys/*"].map((pattern) => `--exclude=${pattern}`);
  const args = ["-c", "-f", "-", "-C", source, "--numeric-owner", "--one-file-system", "--anchored", ...excluded, "."];
  const tar = spawn("tar", args, { stdio: ["ignore", "pipe", "pipe"] });
  const printed = text(tar.stderr).catch(() => "");
  const ended = once(tar, "close").then(
    async ([code]) => (code === 0 ? undefined : (await printed).trim().split("\n").slice(-3).join("; ")),
    textOfError,
  );
  try {
    await unpackTar(tar.stdout, target, signal);
  } catch (error) {
    tar.kill();
    throw error;
  }
  const failure = await ended;
  if (failure !== undefined) {
    throw new RametError("InvalidArgument", `Reading the directory ${source} failed: ${failure}`, {
      hint: "Make every file in it readable, or create a tar of it as root and add that",
    });
  }
}

/** Whether this process can change the owners of files. */
export function isRoot(): boolean {
  return process.getuid?.() === 0;
}
