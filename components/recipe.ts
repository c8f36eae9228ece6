import { readFileSync, statSync } from "node:fs";
import type { Input } from "@pulumi/pulumi";
import { readDirectoryTree } from "../src/base/directory-tree.ts";
import { RametError } from "../src/base/errors.ts";
import { runError } from "./run-error.ts";

/** A step of a recipe. Created by the functions of this module. */
export interface RecipeStepArgs {
  run?: Input<string>;
  copy?: CopyArgs;
  start?: Input<string>;
  waitFor?: WaitForArgs;
  env?: Input<Record<string, Input<string>>>;
  workdir?: Input<string>;
  user?: Input<string>;
  cwd?: Input<string>;
  timeoutSeconds?: Input<number>;
  mayEnd?: Input<boolean>;
  shell?: Input<"sh" | "bash">;
}

export interface CommandOptions {
  /** The working directory of the command. @default the directory of the last `workdir` step, else the image's */
  cwd?: Input<string>;
  /** Environment variables for this command only. */
  env?: Input<Record<string, Input<string>>>;
  /** The user that runs the command. @default the user of the last `user` step, else the entrypoint's */
  user?: Input<string>;
  /** The shell of the command line. bash is a login shell, and /bin/sh in an image without it. @default "sh" */
  shell?: Input<"sh" | "bash">;
}

/**
 * A file or a directory tree to write. Set exactly one of `content`, `secret`, `url` with `sha256`, `configMapKeyRef`,
 * `secretKeyRef` and `tree`.
 */
export interface CopyArgs {
  /** The absolute path of the file in the sandbox. With `tree`: of the directory that the tree is merged into. */
  path: Input<string>;
  /** The content as text, at most 256 KiB. Visible to everyone who can read the NamedSnapshot. */
  content?: Input<string>;
  /**
   * The content as secret text. It is stored in a Secret and encrypted in the state. Every clone contains it.
   */
  secret?: Input<string>;
  /** An http or https URL from which the controller downloads the file. Only public addresses are allowed. */
  url?: Input<string>;
  /** The SHA-256 digest of the file at `url`: 64 hex digits. */
  sha256?: Input<string>;
  /** A key of a ConfigMap in the same namespace. */
  configMapKeyRef?: Input<{ name: Input<string>; key: Input<string> }>;
  /** A key of a Secret in the same namespace. */
  secretKeyRef?: Input<{ name: Input<string>; key: Input<string> }>;
  /** The digest of a directory tree that `ramet snapshot upload` has stored in the namespace: 64 hex digits. */
  tree?: Input<string>;
  /** The file or directory in the tree to copy. A file is copied to `path`. @default the whole tree */
  treePath?: Input<string>;
  /** The file mode, octal. @default "0644"; with `tree`, the modes of its files */
  mode?: Input<string>;
  /** The owner of the file. @default the user of the last `user` step, else the entrypoint's */
  user?: Input<string>;
}

/** Set exactly one of `port`, `file` and `command`. */
export interface WaitForArgs {
  /** Wait until this TCP port accepts connections from outside the sandbox. */
  port?: Input<number>;
  /** Wait until this file exists. */
  file?: Input<string>;
  /** Wait until this command line exits with code 0. */
  command?: Input<string>;
  /** The shell of `command`. @default "sh" */
  shell?: Input<"sh" | "bash">;
  /** Timeout in seconds. @default 60 */
  timeoutSeconds?: Input<number>;
}

/**
 * Runs a command line, which must exit with code 0. `timeoutSeconds` is 600 by default. Processes that it leaves running end
 * before the first `start` or `waitFor`, unless the snapshot has no layers.
 */
export function run(
  command: Input<string>,
  options: CommandOptions & { timeoutSeconds?: Input<number> } = {},
): RecipeStepArgs {
  return { run: command, ...options };
}

/**
 * Starts a command line that keeps running and is part of every clone's memory. The build fails if it ends, unless `mayEnd` is set.
 */
export function start(
  command: Input<string>,
  options: CommandOptions & { mayEnd?: Input<boolean> } = {},
): RecipeStepArgs {
  return { start: command, ...options };
}

/**
 * Writes files into the sandbox: a text file from the program's directory, `copy("./prepare.py", "/data/prepare.py")`,
 * a directory, `copy("./app", "/srv/app")`, or content from another source,
 * `copy({ path: "/etc/token", secret: config.requireSecret("token") })`.
 *
 * Of a directory, the recipe has only the digest: store its content first, with `ramet snapshot upload ./app --template python`.
 */
export function copy(
  // One type instead of overloads, so that the error about a missing path shows both forms.
  ...file: [from: string, path: Input<string>, options?: Pick<CopyArgs, "mode" | "user">] | [args: CopyArgs]
): RecipeStepArgs {
  if (file.length === 1) return { copy: file[0] };
  const [from, path, options = {}] = file;
  return { copy: { path, ...contentOf(from), ...options } };
}

/** Waits until a port is open, a file exists or a command succeeds. */
export function waitFor(args: WaitForArgs): RecipeStepArgs {
  return { waitFor: args };
}

/** Sets environment variables for the following steps. */
export function env(variables: Input<Record<string, Input<string>>>): RecipeStepArgs {
  return { env: variables };
}

/** Sets the working directory of the following steps. It must exist. */
export function workdir(path: Input<string>): RecipeStepArgs {
  return { workdir: path };
}

/** Sets the user that runs the following steps and owns the files that they copy. */
export function user(name: Input<string>): RecipeStepArgs {
  return { user: name };
}

/** @throws RunError if it cannot be read */
function contentOf(path: string): Pick<CopyArgs, "content" | "tree"> {
  if (statSync(path, { throwIfNoEntry: false })?.isDirectory() !== true) return { content: textOf(path) };
  try {
    return { tree: readDirectoryTree(path).digest };
  } catch (error) {
    throw runError(error);
  }
}

/** @throws RunError if the file cannot be read, is too large or is not text */
function textOf(path: string): string {
  const bytes = bytesOf(path);
  const text = bytes.toString("utf8");
  if (bytes.length <= mostBytes && Buffer.from(text).equals(bytes)) return text;
  const why = `${path} is not a text file of at most 256 KiB, the limit of a recipe`;
  const hint = "Put the file into a directory and copy that, or pass the url and sha256 of the file to copy";
  throw runError(new RametError("InvalidArgument", why, { hint }));
}

function bytesOf(path: string): Buffer {
  try {
    return readFileSync(path);
  } catch (error) {
    const why = error instanceof Error ? error.message : String(error);
    const hint = `Use an absolute path or one relative to the program's directory, ${process.cwd()}`;
    throw runError(new RametError("InvalidArgument", `Cannot read the file of a copy step: ${why}`, { hint }));
  }
}

const mostBytes = 262_144;
