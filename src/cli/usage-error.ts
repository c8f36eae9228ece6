import type { Command, CommanderError } from "commander";
import { RametError } from "../base/errors.ts";
import type { Io } from "./io.ts";
import { exitCodes, reportError } from "./report-error.ts";

/**
 * Reports a command line that commander refused. Returns the exit code. `--help` and `--version` end in the same way, and so does
 * a group without a command, whose help has been printed.
 */
export function reportUsage(io: Io, program: Command, args: readonly string[], error: CommanderError): number {
  if (error.exitCode === 0) return exitCodes.ok;
  if (error.code === "commander.help") return exitCodes.usage;
  const [what = "", suggestion] = error.message.replace(/^error: /, "").split("\n");
  const hint = `${suggestion === undefined ? "" : `${suggestion.replace(/^\(|\)$/g, "")} `}${adviceFor(program, args, error)}`;
  return reportError(io, new RametError("InvalidArgument", inOurWords(what), { hint }), outputAmong(args));
}

function adviceFor(program: Command, args: readonly string[], { code }: CommanderError): string {
  const command = commandOf(program, args);
  const path = pathOf(command);
  if (code === "commander.unknownOption" && path.endsWith(" exec")) {
    return `Put -- before a command that has options: ${path} ${command.usage().replace("[options] ", "")}`;
  }
  return `See: ${path} --help`;
}

/** `option '--count <n>' argument 'z' is invalid. Why` reads like other errors: `Invalid --count "z": why`. */
function inOurWords(what: string): string {
  const found =
    /^(?:option '(?:-\w, )?(--[\w-]+)[^']*'|command-argument) (?:argument|value) '(.*?)' is invalid(?: for argument '(\w+)')?\. (.*)$/s.exec(
      what,
    );
  if (found === null) return `${what.charAt(0).toUpperCase()}${what.slice(1)}`;
  const [, option, value = "", argument = "", why = ""] = found;
  return `Invalid ${option ?? argument} ${JSON.stringify(value)}: ${why.replace(/\.$/, "").replace("Allowed choices are", "it must be one of")}`;
}

/** The value of `--output` in a command line that cannot be parsed. */
function outputAmong(args: readonly string[]): string | undefined {
  const end = args.indexOf("--");
  const own = args.slice(0, end < 0 ? undefined : end).join(" ");
  return /(?:^| )(?:-o|--output)[ =]?(\w+)/.exec(own)?.[1];
}

/** The command that the first words name. */
function commandOf(command: Command, [word = "", ...others]: readonly string[]): Command {
  const child = childNamed(command, word);
  return child === undefined ? command : commandOf(child, others);
}

/** The subcommand that a word names. */
export function childNamed(command: Command, word: string): Command | undefined {
  return command.commands.find((one) => one.name() === word || one.aliases().includes(word));
}

/** The words that name a command: `ramet sandbox ls`. */
function pathOf(command: Command): string {
  return command.parent === null ? command.name() : `${pathOf(command.parent)} ${command.name()}`;
}
