import { type Command, CommanderError, Option } from "commander";
import { RametError } from "../base/errors.ts";
import { checkpointCommands } from "./checkpoint/commands.ts";
import { completionCommand } from "./completion/command.ts";
import { doctorCommand, upgradeCommand } from "./doctor/commands.ts";
import { explainCommand } from "./explain/command.ts";
import { type Io, isBrokenPipe } from "./io.ts";
import { keyCommands, keysCommands } from "./key/commands.ts";
import { localCommands } from "./local/commands.ts";
import { mcpCommand } from "./mcp/command.ts";
import { nodeCommands } from "./node/commands.ts";
import { objectCommands } from "./object/commands.ts";
import { packageVersion } from "./package-version.ts";
import { type Act, RametCommand } from "./ramet-command.ts";
import { exitCodes, reportError } from "./report-error.ts";
import { forkCommand, rollbackCommand, sandboxCommands } from "./sandbox/commands.ts";
import { csiDriverCommand, manifestsCommand, serverCommands } from "./server/commands.ts";
import { claimCommands, setCommands } from "./set/commands.ts";
import { snapshotCommands } from "./snapshot/commands.ts";
import { gcCommand, storeCommands } from "./store/commands.ts";
import { reportUsage } from "./usage-error.ts";

/** Runs `ramet` with these arguments. Never throws: reports failures on stderr. */
export async function runProgram(io: Io, args: readonly string[]): Promise<number> {
  let exitCode: number = exitCodes.ok;
  let output: string | undefined;
  const program = buildProgram(io, (load, ...names) => async (...given) => {
    const options = { ...(given[names.length] as object) };
    for (const [at, name] of names.entries()) Object.assign(options, { [name]: given[at] });
    exitCode = (await (await load())(io, options as never)) ?? exitCodes.ok;
  });
  program.hook("preAction", (_, command) => {
    const given: unknown = command.opts()["output"];
    output = typeof given === "string" ? given : undefined;
  });
  try {
    await program.parseAsync(args, { from: "user" });
    return exitCode;
  } catch (error) {
    if (error instanceof CommanderError) return reportUsage(io, program, args, error);
    // The reader of the output has exited.
    if (isBrokenPipe(error)) return exitCodes.brokenPipe;
    // Ctrl-C before anything was requested. Errors of a request that stays have a hint.
    const { code, hint } = RametError.from(error);
    if (io.signal.aborted && code === "Canceled" && hint === undefined) return exitCodes.interrupted;
    return reportError(io, error, output);
  }
}

/** Defines all commands. Their implementations are loaded when they run. */
export function buildProgram(io: Pick<Io, "stdout" | "stderr">, act: Act): RametCommand {
  const program = new RametCommand(act, "ramet")
    .description("Checkpoint, name and clone agent sandboxes on Kubernetes.")
    .exitOverride()
    // An option after a command is that command's: `ramet snapshot logs NAME --version 2`.
    .enablePositionalOptions()
    .configureOutput({
      writeOut: (text) => io.stdout.write(text),
      writeErr: (text) => io.stderr.write(text),
      outputError: () => undefined,
    })
    .configureHelp({ showGlobalOptions: false })
    .showSuggestionAfterError()
    .addHelpText("after", programExamples);
  for (const define of commands) define(program);
  answerVersion(program, () => {
    io.stdout.write(`${packageVersion()}\n`);
    throw new CommanderError(exitCodes.ok, "commander.version", "the version was printed");
  });
  return program;
}

/** In the order in which the help lists them. */
const commands = [
  sandboxCommands,
  checkpointCommands,
  rollbackCommand,
  forkCommand,
  setCommands,
  claimCommands,
  snapshotCommands,
  explainCommand,
  doctorCommand,
  nodeCommands,
  gcCommand,
  objectCommands,
  localCommands,
  storeCommands,
  keyCommands,
  keysCommands,
  manifestsCommand,
  upgradeCommand,
  serverCommands,
  csiDriverCommand,
  mcpCommand,
  completionCommand,
];

const programExamples = `
Examples:
  $ ramet local up                                        start a cluster on this machine
  $ ramet sandbox create --template python --name a       create a sandbox
  $ ramet sandbox exec a -- python3 -c 'print(1)'         run a command in it
  $ id=$(ramet checkpoint create a)                       capture it, with its memory
  $ ramet sandbox create --from "$id" --name b            clone it

Exit codes: 0 success, 1 failure, 2 wrong usage, 3 not found, 4 timeout, 130 interrupted.
`;

/**
 * Adds `--version` to a program and all its commands; only the program's help shows it. A command that defines the option keeps
 * its own. A command that runs a command in a sandbox does not get one, because there the option belongs to that command.
 */
function answerVersion(program: Command, print: () => void): void {
  program.option(flags, "print the version of this program").on("option:version", print);
  for (const command of program.commands) answerBelow(command, print);
}

function answerBelow(command: Command, print: () => void): void {
  const hasOwn = command.options.some(({ long }) => long === "--version");
  const runsCommand = command.registeredArguments.some((argument) => argument.name() === "command");
  if (!hasOwn && !runsCommand) command.addOption(new Option(flags).hideHelp()).on("option:version", print);
  for (const child of command.commands) answerBelow(child, print);
}

const flags = "-V, --version";
