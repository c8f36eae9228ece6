import type { Command } from "commander";

/** The command that the first words name. */
export function commandOf(command: Command, [word = "", ...others]: readonly string[]): Command {
  const child = childNamed(command, word);
  return child === undefined ? command : commandOf(child, others);
}

/** The subcommand that a word names. */
export function childNamed(command: Command, word: string): Command | undefined {
  return command.commands.find((one) => one.name() === word || one.aliases().includes(word));
}

/** The words that name a command: `ramet sandbox ls`. */
export function pathOf(command: Command): string {
  return command.parent === null ? command.name() : `${pathOf(command.parent)} ${command.name()}`;
}
