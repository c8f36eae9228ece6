import { Option, type Command } from "commander";

/**
 * Has a program and its commands answer `--version`, as they do `--help`; the program's help alone names it. A command that has
 * an option of that name keeps it, and one that runs a command in a sandbox has none: there it is meant for that command.
 */
export function answerVersion(program: Command, print: () => void): void {
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
