import { posix } from "node:path";
import {
  type CopyStep,
  type WaitFor,
  copyMode,
  runTimeoutSeconds,
  waitTimeoutSeconds,
} from "../../../api/recipe/recipe.ts";
import { delay } from "../../../base/clock.ts";
import { defined } from "../../../base/defined.ts";
import { RametError } from "../../../base/errors.ts";
import { LogTail, runCommand, shell, unknownEnd } from "./run-command.ts";
import type { StepContext, StepEnvironment, StepOutcome, StepRequest } from "./step.ts";

/**
 * Runs one step. A step that an earlier controller started is followed to its end if the guest still knows it. A failure
 * caused by the recipe is an outcome with an `error`.
 * @throws RametError when the result of the step is unknown
 */
export async function runStep(request: StepRequest, environment: StepEnvironment): Promise<StepOutcome> {
  const { clock } = environment;
  const startedAt = clock.monotonicMilliseconds();
  const log = new LogTail();
  const result = await carryOut(request, environment, log).catch((thrown: unknown) => failureOfStep(thrown));
  const ended = result.error === undefined ? await endedCommand(request, environment) : undefined;
  return {
    ...result,
    ...defined({ error: ended }),
    milliseconds: clock.monotonicMilliseconds() - startedAt,
    log: log.text(),
  };
}

type Result = Pick<StepOutcome, "exitCode" | "error">;

async function carryOut(request: StepRequest, environment: StepEnvironment, log: LogTail): Promise<Result> {
  const { step } = request;
  if (step.run !== undefined) {
    const timeoutSeconds = step.timeoutSeconds ?? runTimeoutSeconds;
    return runCommand({ ...request, commandLine: step.run, timeoutSeconds }, environment, log);
  }
  if (step.start !== undefined) return startCommand(step.start, request, environment);
  if (step.copy !== undefined) {
    const copy = { ...step.copy, path: await absolutePath(step.copy.path, request.context, environment) };
    const { tree } = copy;
    return tree === undefined
      ? copyFile(copy, request, environment)
      : copyTree({ ...copy, tree }, request, environment, log);
  }
  if (step.waitFor === undefined) return {};
  return waitUntil(step.waitFor, step.waitFor.timeoutSeconds ?? waitTimeoutSeconds, { ...request, environment, log });
}

/** The step ends when the guest reports that the command has started. The command keeps running. */
async function startCommand(
  commandLine: string,
  { tag, context, fresh }: StepRequest,
  { guest, signal }: StepEnvironment,
): Promise<Result> {
  const user = guest(context.user);
  if (!fresh && (await user.listProcesses()).some((one) => one.tag === tag)) return {};
  if (!fresh) throw unknownEnd(commandLine);
  for await (const event of user.startProcess(shell(commandLine, context, tag), signal)) {
    if (event.type === "start") return {};
  }
  return { error: "the command ended before it had started" };
}

/** Commands of earlier `start` steps must still run, as every clone has them in its memory. */
async function endedCommand({ started }: StepRequest, { guest }: StepEnvironment): Promise<string | undefined> {
  if (started.size === 0) return undefined;
  const running = new Set((await guest(undefined).listProcesses()).map(({ tag }) => tag));
  const [ended] = [...started].filter(([tag]) => !running.has(tag));
  return ended && `the command of step ${ended[1]} is no longer running`;
}

/** An error that a change of the recipe can fix fails the step; any other error is rethrown. */
function failureOfStep(thrown: unknown): Result {
  const error = RametError.from(thrown);
  if (!recipeErrors.has(error.code)) throw error;
  return { error: error.describe() };
}

const recipeErrors = new Set(["InvalidArgument", "Timeout", "NotFound", "Forbidden", "Unauthorized"]);

/** A relative path begins where the commands of the recipe start. Only the guest knows that directory without a `workdir` step. */
async function absolutePath(
  path: string,
  { workingDirectory, user }: StepContext,
  { guest }: StepEnvironment,
): Promise<string> {
  if (path.startsWith("/")) return path;
  const directory = workingDirectory ?? (await guest(user).stat(".")).path;
  return posix.join(directory, path);
}

/** Writes the file, and sets its mode if it is not the default. Can be repeated. */
async function copyFile(
  copy: CopyStep,
  { context, tag }: StepRequest,
  environment: StepEnvironment,
): Promise<Pick<StepOutcome, "exitCode" | "error">> {
  const { guest, contentOf, signal } = environment;
  await guest(context.user).writeFile(copy.path, await contentOf(copy, signal), signal);
  const mode = (copy.mode ?? copyMode).padStart(4, "0");
  if (mode === copyMode) return {};
  const commandLine = `chmod ${mode} "$RAMET_COPIED"`;
  const variables = { ...context.environment, RAMET_COPIED: copy.path };
  const request = {
    commandLine,
    context: { ...context, environment: variables },
    tag,
    fresh: true,
    timeoutSeconds: modeTimeoutSeconds,
  };
  const log = new LogTail();
  const { error, ...rest } = await runCommand(request, environment, log);
  return error === undefined ? rest : { ...rest, error: `chmod ${mode}: ${error} ${log.text()}`.trim() };
}

const modeTimeoutSeconds = 30;

interface WaitEnvironment {
  context: StepContext;
  tag: string;
  environment: StepEnvironment;
  log: LogTail;
}

/** Polls with growing pauses until the condition holds or the time is over. */
async function waitUntil(
  waitFor: WaitFor,
  timeoutSeconds: number,
  waitEnvironment: WaitEnvironment,
): Promise<Pick<StepOutcome, "error">> {
  const { clock, signal } = waitEnvironment.environment;
  const deadline = clock.monotonicMilliseconds() + timeoutSeconds * 1000;
  for (let tries = 0; ; tries++) {
    const leftMilliseconds = deadline - clock.monotonicMilliseconds();
    if (await holds(waitFor, leftMilliseconds, tries, waitEnvironment)) return {};
    const pause = Math.min(firstPauseMilliseconds * 2 ** Math.min(tries, 10), longestPauseMilliseconds);
    const left = deadline - clock.monotonicMilliseconds();
    if (left <= 0) return { error: `${unmet(waitFor)} within ${timeoutSeconds} s` };
    await delay(clock, Math.min(pause, left), signal);
  }
}

async function holds(
  { port, file, command }: WaitFor,
  leftMilliseconds: number,
  tries: number,
  { context, tag, environment, log }: WaitEnvironment,
): Promise<boolean> {
  if (port !== undefined) return environment.takesConnections(port, environment.signal);
  if (file !== undefined) return exists(file, context, environment);
  const timeoutSeconds = Math.max(1, Math.ceil(leftMilliseconds / 1000));
  const request = { commandLine: command ?? "", context, tag: `${tag}-${tries}`, fresh: true, timeoutSeconds };
  return (await runCommand(request, environment, log)).exitCode === 0;
}

async function exists(file: string, context: StepContext, { guest }: StepEnvironment): Promise<boolean> {
  try {
    await guest(context.user).stat(file);
    return true;
  } catch (error) {
    if (RametError.from(error).code === "NotFound") return false;
    throw error;
  }
}

function unmet({ port, file, command }: WaitFor): string {
  if (port !== undefined) return `port ${port} did not accept connections from outside the sandbox`;
  return file === undefined ? `${command ?? ""} did not exit with code 0` : `${file} did not appear`;
}

const firstPauseMilliseconds = 50;
const longestPauseMilliseconds = 1_000;

/**
 * Unpacks a directory tree in the sandbox, and merges it into its target. Root does that for another user, because the target can be
 * anywhere. The tree is only as dangerous as a command of the recipe. Can be repeated.
 */
async function copyTree(
  copy: CopyStep & { tree: string },
  { context, tag }: StepRequest,
  environment: StepEnvironment,
  log: LogTail,
): Promise<Pick<StepOutcome, "exitCode" | "error">> {
  const { guest, treeOf, signal } = environment;
  const { user, workingDirectory: _, shell: _shell, ...rest } = context;
  const as = user === undefined ? {} : { user: "0" };
  const archive = `/tmp/.${tag}.tar`;
  await treeOf(copy.tree, (content) => guest(as.user).writeFile(archive, content, signal), signal);
  const variables = {
    RAMET_ARCHIVE: archive,
    RAMET_STAGING: `/tmp/.${tag}`,
    RAMET_FROM: copy.treePath ?? ".",
    RAMET_TO: copy.path,
    RAMET_OWNER: user ?? "",
    RAMET_MODE: copy.mode ?? "",
  };
  const request = {
    commandLine: unpack,
    context: { ...rest, ...as, environment: { ...context.environment, ...variables } },
    tag,
    fresh: true,
    timeoutSeconds,
  };
  return runCommand(request, environment, log);
}

const timeoutSeconds = 600;

/**
 * For sh with the tar, cp and chown of coreutils or BusyBox. A tree's directories are merged into existing ones, whose attributes
 * stay where tar can do that; files are replaced. Set-uid, set-gid and sticky bits are dropped.
 */
const unpack = `set -e
rm -rf "$RAMET_STAGING"
mkdir -p "$RAMET_STAGING"
trap 'rm -rf "$RAMET_STAGING" "$RAMET_ARCHIVE"' EXIT
tar -x -o -f "$RAMET_ARCHIVE" -C "$RAMET_STAGING"
rm -f "$RAMET_ARCHIVE"
cd "$RAMET_STAGING"
from="$RAMET_FROM"
if [ ! -e "$from" ] && [ ! -L "$from" ]; then echo "the tree has no $from" >&2; exit 1; fi
if [ -n "$RAMET_OWNER" ]; then
  chown -hR "$RAMET_OWNER:$RAMET_OWNER" "$from" 2>/dev/null || chown -hR "$RAMET_OWNER" "$from"
fi
if [ ! -L "$from" ]; then
  chmod -R u-s,g-s,o-t "$from"
  if [ -n "$RAMET_MODE" ]; then chmod -R "$RAMET_MODE" "$from"; fi
fi
if [ -d "$from" ] && [ ! -L "$from" ]; then
  mkdir -p "$RAMET_TO"
  merge=""
  if tar --help 2>&1 | grep -q -e --keep-directory-symlink; then merge="--no-overwrite-dir --keep-directory-symlink"; fi
  tar -c -f "$RAMET_ARCHIVE" -C "$from" .
  tar -x -p $merge -f "$RAMET_ARCHIVE" -C "$RAMET_TO"
else
  case "$RAMET_TO" in */) mkdir -p "$RAMET_TO" ;; *) mkdir -p "$(dirname "$RAMET_TO")" ;; esac
  mv -f "$from" "$RAMET_TO"
fi`;
