import { Command, CommanderError, Option } from "commander";
import { RametError } from "../base/errors.ts";
import { checkpointCommands } from "./checkpoint/commands.ts";
import { claimCommands, setCommands } from "./set/commands.ts";
import { completionCommand } from "./completion/command.ts";
import { csiDriverCommand } from "./csi/command.ts";
import { doctorCommand, upgradeCommand } from "./doctor/commands.ts";
import { explainCommand } from "./explain/command.ts";
import { exitCodes } from "./exit-codes.ts";
import { forkCommand, sandboxCommands, rollbackCommand } from "./sandbox/commands.ts";
import { gcCommand, storeCommands } from "./store/commands.ts";
import { type Io, isBrokenPipe } from "./io.ts";
import { keyCommands, keysCommands } from "./key/commands.ts";
import { localCommands } from "./local/commands.ts";
import { manifestsCommand } from "./manifests/command.ts";
import { mcpCommand } from "./mcp/command.ts";
import { objectCommands } from "./object/commands.ts";
import { withExamples } from "./options.ts";
import { packageVersion } from "./package-version.ts";
import { type Act, reportError } from "./report-error.ts";
import { serverCommands } from "./server/commands.ts";
import { snapshotCommands } from "./snapshot/commands.ts";
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
export function buildProgram(io: Pick<Io, "stdout" | "stderr">, act: Act): Command {
  const program = new Command("ramet")
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
  addCommands(program, act);
  answerVersion(program, () => {
    io.stdout.write(`${packageVersion()}\n`);
    throw new CommanderError(exitCodes.ok, "commander.version", "the version was printed");
  });
  return program;
}

/** In the order in which the help lists them. */
function addCommands(program: Command, act: Act): void {
  const group = (name: string, description: string, ...examples: [string, ...string[]]): Command =>
    withExamples(program.command(name).description(description), ...examples);
  const sandbox = group(
    "sandbox",
    "Create, enter and delete sandboxes.",
    "ramet sandbox create --template python --name a",
    "ramet sandbox exec a -- python3 -c 'print(1)'",
    "ramet sandbox rm a",
  );
  sandboxCommands(sandbox.alias("sbx"), act);
  // No alias `cp`, which people expect to copy files: that is `ramet sandbox cp`.
  const checkpoint = group("checkpoint", "Capture sandboxes.", "ramet checkpoint create a", "ramet checkpoint ls");
  checkpointCommands(checkpoint, act);
  rollbackCommand(program, act);
  forkCommand(program, act);
  const set = group("set", "Keep sandboxes ready to claim.", "ramet set ls", "ramet set scale python 20");
  setCommands(set.alias("sbs"), act);
  const claim = group("claim", "Claim ready sandboxes of a set.", "ramet claim python", "ramet claim ls");
  claimCommands(claim, act);
  const snapshot = group(
    "snapshot",
    "Build, name and version snapshots.",
    "ramet snapshot apply -f python-data.yaml",
    "ramet snapshot history python-data",
    "ramet snapshot rollback python-data",
  );
  snapshotCommands(snapshot.alias("nsnap"), act);
  explainCommand(program, act);
  doctorCommand(program, act);
  gcCommand(program, act);
  objectCommands(program, act);
  const local = group(
    "local",
    "Run a cluster on this machine.",
    "ramet local up",
    "ramet local status",
    "ramet local logs controller -f",
    "ramet local down",
  );
  localCommands(local, act);
  const store = group("store", "Inspect a checkpoint store.", "ramet store usage", "ramet store scrub");
  storeCommands(store, act);
  const key = group(
    "key",
    "Create, rotate and revoke API keys of clients.",
    "ramet key create ci --service-account agents --create-service-account",
    "ramet key ls",
    "ramet key revoke ci",
  );
  keyCommands(key, act);
  const keys = group(
    "keys",
    "Rotate the cluster's keys, which sign calls to cells.",
    "ramet keys rotate gateways",
    "ramet keys get",
  );
  keysCommands(keys, act);
  manifestsCommand(program, act);
  upgradeCommand(program, act);
  serverCommands(program, act);
  csiDriverCommand(program, act);
  mcpCommand(program, act);
  completionCommand(program, act);
}

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
