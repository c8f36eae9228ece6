import type { Command } from "commander";
import { listCommand, getCommand, removeCommand } from "../object/verbs.ts";
import { collectVariable, wholeNumber, withClusterFlags, withOutputFlag, withWaitFlags } from "../options.ts";
import type { Act } from "../report-error.ts";
import type { CopyOptions } from "./copy.ts";
import type { CreateSandboxOptions } from "./create.ts";
import type { ExecOptions } from "./run-command.ts";
import type { LogsOptions } from "./logs.ts";
import type { PauseOptions } from "./pause.ts";

/** `ramet sandbox …`. */
export function sandboxCommands(sandbox: Command, act: Act): void {
  createCommand(sandbox, act);
  listCommand(sandbox, "sandbox", act);
  getCommand(sandbox, "sandbox", act);
  removeCommand(sandbox, "sandbox", act);
  execCommand(sandbox, act);
  logsCommand(sandbox, act);
  copyCommand(sandbox, act);
  pauseCommands(sandbox, act);
}

function createCommand(sandbox: Command, act: Act): void {
  const command = sandbox
    .command("create")
    .description("Make a sandbox from a template, an image or a checkpoint, and print its name.")
    .option("--template <name>", "the SandboxTemplate to make it from")
    .option("--image <image>", "the image to make it from, without a template")
    .option("--from <checkpoint-id>", "the checkpoint to clone")
    .option("--name <name>", "its name: a DNS label (default: generated)")
    .option("-e, --env <name=value>", "a variable of its environment; may be repeated", collectVariable);
  withWaitFlags(command, "until it answers");
  withOutputFlag(command, "the name alone");
  withClusterFlags(command)
    .action(
      act(async (options: CreateSandboxOptions) => {
        const { createSandbox } = await import("./create.ts");
        return (io) => createSandbox(io, options);
      }),
    )
    .addHelpText(
      "after",
      `
Examples:
  $ ramet sandbox create --template python --name a
  $ ramet sandbox create --image debian:13 -e GREETING=hello
  $ ramet sandbox create --from "$(ramet checkpoint create a)" --name b
`,
    );
}

function execCommand(sandbox: Command, act: Act): void {
  const command = sandbox
    .command("exec")
    .description("Run a command in a sandbox, and end with its exit code.")
    .usage("[options] <name> -- <command> [args...]")
    .argument("<name>", "the sandbox")
    .argument("<command...>", "the command and its arguments, after --")
    .option("-i, --stdin", "give the command our input")
    .option("-t, --tty", "give the command a terminal")
    .option("-e, --env <name=value>", "a variable of its environment; may be repeated", collectVariable)
    .option("--cwd <folder>", "its working directory")
    .option("-u, --user <name>", "the user, by name or number (default: the sandbox's own)");
  withClusterFlags(command)
    .action(
      act(async (name: string, words: [string, ...string[]], options: Omit<ExecOptions, "name" | "command">) => {
        const { execInSandbox } = await import("./run-command.ts");
        return (io) => execInSandbox(io, { ...options, name, command: words });
      }),
    )
    .addHelpText(
      "after",
      `
The first SIGINT, SIGTERM or SIGHUP asks the command to end (SIGTERM), the next one ends it (SIGKILL).

Examples:
  $ ramet sandbox exec a -- python3 -c 'print(1)'
  $ ramet sandbox exec -it a -- bash
  $ tar c src | ramet sandbox exec -i a --cwd /data -- tar x
`,
    );
}

function logsCommand(sandbox: Command, act: Act): void {
  const command = sandbox
    .command("logs")
    .description("Print what a sandbox's entrypoint printed.")
    .argument("<name>", "the sandbox")
    .option("-f, --follow", "go on until the sandbox ends")
    .option("--tail <lines>", "only so many of the last lines", wholeNumber)
    .option("--since <duration>", "only what is newer, like 10m")
    .option("--timestamps", "begin each line with its time");
  withClusterFlags(command).action(
    act(async (name: string, options: Omit<LogsOptions, "name">) => {
      const { printLogs } = await import("./logs.ts");
      return (io) => printLogs(io, { ...options, name });
    }),
  );
}

function copyCommand(sandbox: Command, act: Act): void {
  const command = sandbox
    .command("cp")
    .description("Copy a file into or out of a sandbox.")
    .argument("<from>", "a file here, NAME:/path in a sandbox, or - for stdin")
    .argument("<to>", "a file here, NAME:/path in a sandbox, or - for stdout")
    .option("-u, --user <name>", "the user, by name or number (default: the sandbox's own)");
  withClusterFlags(command)
    .action(
      act(async (from: string, to: string, options: Omit<CopyOptions, "from" | "to">) => {
        const { copyFile } = await import("./copy.ts");
        return (io) => copyFile(io, { ...options, from, to });
      }),
    )
    .addHelpText(
      "after",
      `
Examples:
  $ ramet sandbox cp data.csv a:/data/in.csv
  $ ramet sandbox cp a:/data/result.json .
  $ ramet sandbox exec a -- tar c /data | tar x      a whole folder
`,
    );
}

function pauseCommands(sandbox: Command, act: Act): void {
  for (const [verb, paused, done] of [
    ["pause", true, "Keep a sandbox's state and give its Pod up."],
    ["resume", false, "Bring a paused sandbox back."],
  ] as const) {
    const command = sandbox.command(verb).description(done).argument("<name>", "the sandbox");
    withWaitFlags(command, paused ? "until it is paused" : "until it answers");
    withClusterFlags(command).action(
      act(async (name: string, options: Omit<PauseOptions, "name" | "paused">) => {
        const { pauseSandbox } = await import("./pause.ts");
        return (io) => pauseSandbox(io, { ...options, name, paused });
      }),
    );
  }
}
