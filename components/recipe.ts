import { readFileSync } from "node:fs";
import type { Input } from "@pulumi/pulumi";
import { RametError } from "../src/base/errors.ts";
import { runError } from "./run-error.ts";

/** One step of a recipe; made by the functions of this file. */
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
}

export interface CommandOptions {
  /** The folder in which it runs. @default that of the last `workdir` step, else the image's */
  cwd?: Input<string>;
  /** Variables for this command only. */
  env?: Input<Record<string, Input<string>>>;
  /** Who runs it. @default that of the last `user` step, else the entrypoint's */
  user?: Input<string>;
}

/** What a file is made from: give one of `content`, `secret`, `url` with `sha256`, `configMapKeyRef` and `secretKeyRef`. */
export interface CopyArgs {
  /** Where the file goes: an absolute path. */
  path: Input<string>;
  /** The file as text, at most 256 KiB. Whoever may read the NamedSnapshot can read it. */
  content?: Input<string>;
  /**
   * The file as text that nobody may read but the sandboxes: it is kept in a Secret, and encrypted in the state. Every clone
   * holds it.
   */
  secret?: Input<string>;
  /** An http or https URL that the controller fetches, from public addresses only. */
  url?: Input<string>;
  /** Of the file at the URL: 64 hex digits. */
  sha256?: Input<string>;
  /** The file is a key of a ConfigMap of the namespace. */
  configMapKeyRef?: Input<{ name: Input<string>; key: Input<string> }>;
  /** The file is a key of a Secret of the namespace. */
  secretKeyRef?: Input<{ name: Input<string>; key: Input<string> }>;
  /** Octal. @default "0644" */
  mode?: Input<string>;
  /** Whose file it is. @default that of the last `user` step, else the entrypoint's */
  user?: Input<string>;
}

/** Give one of `port`, `file` and `command`. */
export interface WaitForArgs {
  /** Until this TCP port takes connections from outside the sandbox. */
  port?: Input<number>;
  /** Until this exists. */
  file?: Input<string>;
  /** Until this command line ends with exit code 0. */
  command?: Input<string>;
  /** How long to wait, in seconds. @default 60 */
  timeoutSeconds?: Input<number>;
}

/** Runs a command line, which must end with exit code 0. `timeoutSeconds` is 600 by default. */
export function run(
  command: Input<string>,
  options: CommandOptions & { timeoutSeconds?: Input<number> } = {},
): RecipeStepArgs {
  return { run: command, ...options };
}

/** Starts a command line that goes on running, and is in the memory of every clone. */
export function start(command: Input<string>, options: CommandOptions = {}): RecipeStepArgs {
  return { start: command, ...options };
}

/**
 * Writes a file into the sandbox: a text file of the program's folder, `copy("./prepare.py", "/data/prepare.py")`, or what the
 * arguments say, `copy({ path: "/etc/token", secret: config.requireSecret("token") })`.
 */
export function copy(from: string, path: Input<string>, options?: Pick<CopyArgs, "mode" | "user">): RecipeStepArgs;
export function copy(args: CopyArgs): RecipeStepArgs;
export function copy(
  from: string | CopyArgs,
  path?: Input<string>,
  options: Pick<CopyArgs, "mode" | "user"> = {},
): RecipeStepArgs {
  if (typeof from !== "string") return { copy: from };
  return { copy: { path: path ?? "", content: textOf(from), ...options } };
}

/** Waits until a port is open, a file exists or a command succeeds. */
export function waitFor(args: WaitForArgs): RecipeStepArgs {
  return { waitFor: args };
}

/** Sets variables for the steps that follow. */
export function env(variables: Input<Record<string, Input<string>>>): RecipeStepArgs {
  return { env: variables };
}

/** Sets the folder of the steps that follow; it must exist. */
export function workdir(path: Input<string>): RecipeStepArgs {
  return { workdir: path };
}

/** Sets who runs the steps that follow, and owns what they copy. */
export function user(name: Input<string>): RecipeStepArgs {
  return { user: name };
}

/** @throws RunError saying why its content cannot be copied */
function textOf(path: string): string {
  const bytes = bytesOf(path);
  const text = bytes.toString("utf8");
  if (bytes.length <= mostBytes && Buffer.from(text).equals(bytes)) return text;
  const why = `${path} is no text of at most 256 KiB, which is what a recipe can hold`;
  const hint = "Put it where it can be fetched, and give copy its url and sha256; or into a ConfigMap";
  throw runError(new RametError("InvalidArgument", why, { hint }));
}

function bytesOf(path: string): Buffer {
  try {
    return readFileSync(path);
  } catch (error) {
    const why = error instanceof Error ? error.message : String(error);
    const hint = `A path is one in the program's folder, ${process.cwd()}, or an absolute one`;
    throw runError(new RametError("InvalidArgument", `The file that a step copies cannot be read: ${why}`, { hint }));
  }
}

const mostBytes = 262_144;
