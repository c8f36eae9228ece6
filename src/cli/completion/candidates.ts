import type { Command } from "commander";
import { within } from "../../base/within.ts";
import { withCluster } from "../cluster/cluster.ts";
import { exitCodes } from "../exit-codes.ts";
import { type Io, writeAll } from "../io.ts";
import { userKindNames, type UserKindName, userKinds } from "../object/user-kind.ts";

/** Where the cursor is: what the last word can be. */
export interface Position {
  candidates: string[];
  /** Names of objects of this kind fit too. */
  namesOf?: UserKindName;
  /** The value of `--namespace` among the words. */
  namespace?: string;
  /** Precedes each name: `sandbox/` for `ramet explain`. */
  prefix?: string;
}

/** `ramet __complete -- WORDS`: prints the candidates for the last word. Never fails: a shell would show the error. */
export async function printCandidates(io: Io, program: Command, words: readonly string[]): Promise<number> {
  const position = positionOf(program, words);
  const names = position.namesOf === undefined ? [] : await namesIn(io, position.namesOf, position.namespace);
  const last = words.at(-1) ?? "";
  const all = [...position.candidates, ...names.map((name) => `${position.prefix ?? ""}${name}`)];
  const fitting = all.filter((candidate) => candidate.startsWith(last));
  await writeAll(io.stdout, fitting.map((candidate) => `${candidate}\n`).join(""));
  return exitCodes.ok;
}

/** Finds out what the last word can be from the definitions of the commands. Pure. */
export function positionOf(program: Command, words: readonly string[]): Position {
  const before = words.slice(0, -1);
  const last = words.at(-1) ?? "";
  const walk = before.reduce<Walk>(step, { command: program, argumentCount: 0 });
  const { command, pendingOption, namespace } = walk;
  const at = namespace === undefined ? {} : { namespace };
  if (pendingOption !== undefined) return { candidates: choicesOf(command, pendingOption), ...at };
  if (last.startsWith("-")) return { candidates: optionsOf(command), ...at };
  if (command.commands.length > 0) return { candidates: visibleNames(command), ...at };
  return { ...argumentOf(command, walk.argumentCount, { before, last }), ...at };
}

/** What the words before the last one mean. */
interface Walk {
  command: Command;
  argumentCount: number;
  /** The option whose value comes next. */
  pendingOption?: string;
  namespace?: string;
}

function step({ pendingOption, ...walk }: Walk, word: string): Walk {
  if (pendingOption !== undefined) return pendingOption === "--namespace" ? { ...walk, namespace: word } : walk;
  if (word.startsWith("-")) return withOption(walk, word);
  const child = walk.command.commands.find((one) => one.name() === word || one.aliases().includes(word));
  return child === undefined ? { ...walk, argumentCount: walk.argumentCount + 1 } : { ...walk, command: child };
}

function withOption(walk: Walk, word: string): Walk {
  const option = walk.command.options.find(({ long, short }) => long === word || short === word);
  return option?.required === true ? { ...walk, pendingOption: option.long ?? word } : walk;
}

function choicesOf(command: Command, long: string): string[] {
  return command.options.find((option) => option.long === long)?.argChoices ?? [];
}

function optionsOf(command: Command): string[] {
  return command.options.flatMap(({ long, hidden }) => (hidden || long == null ? [] : [long]));
}

function visibleNames(command: Command): string[] {
  return command
    .createHelp()
    .visibleCommands(command)
    .map((one) => one.name())
    .filter((name) => name !== "help");
}

/** Names of objects, for the commands of a kind and those that take a kind. */
function argumentOf(
  command: Command,
  count: number,
  { before, last }: { before: readonly string[]; last: string },
): Position {
  const [name, parent] = [command.name(), command.parent?.name()];
  if (parent !== "ramet") return argumentOfKind(command, parent);
  if (name === "explain") return explainArgument(last);
  if (name === "get" || name === "rm") {
    const kind = userKindNames.find((one) => before.includes(one));
    return count === 0 || kind === undefined ? { candidates: [...userKindNames] } : { candidates: [], namesOf: kind };
  }
  if (name === "rollback" || name === "fork")
    return { candidates: [], namesOf: count === 0 ? "sandbox" : "checkpoint" };
  return { candidates: [] };
}

function argumentOfKind(command: Command, parent: string | undefined): Position {
  const kind = userKindNames.find((one) => one === parent);
  if (kind === undefined || command.registeredArguments.length === 0 || takesFile.has(command.name()))
    return { candidates: [] };
  return { candidates: [], namesOf: kind === "checkpoint" && command.name() === "create" ? "sandbox" : kind };
}

const takesFile: ReadonlySet<string> = new Set(["apply", "diff"]);

function explainArgument(last: string): Position {
  const kind = userKindNames.find((one) => last.startsWith(`${one}/`));
  return kind === undefined
    ? { candidates: userKindNames.map((one) => `${one}/`) }
    : { candidates: [], namesOf: kind, prefix: `${kind}/` };
}

async function namesIn(io: Io, kind: UserKindName, namespace: string | undefined): Promise<string[]> {
  const { clock, signal } = io;
  try {
    return await within({ clock, milliseconds: 1_000, what: "Listing names", signal }, (inTime) =>
      withCluster(io, namespace === undefined ? {} : { namespace }, async (cluster) => {
        const { items } = await cluster
          .raw(userKinds[kind].kind)
          .list({ namespace: cluster.namespace, signal: inTime });
        return items.map(({ metadata }) => metadata.name);
      }),
    );
  } catch {
    return [];
  }
}
