import type { Command, Option } from "commander";
import { within } from "../../base/within.ts";
import { readKubeconfig } from "../../kube/kubeconfig-files.ts";
import { type ResourceRef, coreResources, refOf } from "../../kube/resource-ref.ts";
import { localClusters } from "../../local/cluster-status.ts";
import { type ClusterOptions, withCluster } from "../cluster/cluster.ts";
import { kubeconfigSource } from "../cluster/kubeconfig-source.ts";
import { type VolumeKindName, isVolumeKind, volumeKindNames } from "../explain/volume-kinds.ts";
import { volumeKinds } from "../explain/volume-resources.ts";
import { type Io, writeAll } from "../io.ts";
import { kindSpelled } from "../object/commands.ts";
import { type UserKindName, userKindNames, userKinds } from "../object/user-kind.ts";
import { childNamed } from "../usage-error.ts";

/** Where names come from. */
export type NameSource = UserKindName | VolumeKindName | "namespace" | "serviceAccount" | "context" | "localCluster";

/** Where the cursor is: what the last word can be. */
export interface Position {
  candidates: readonly string[];
  /** The names of these fit too. */
  namesOf: readonly NameSource[];
  cluster: ClusterOptions;
  /** Precedes each candidate and each name: `--output=`, or `sandbox/` for `ramet explain`. */
  prefix: string;
  /** Follows each name: `:` for `ramet sandbox cp`. */
  suffix: string;
}

/** Finds out what the last word can be from the definitions of the commands. Pure. */
export function positionOf(program: Command, words: readonly string[]): Position {
  const last = words.at(-1) ?? "";
  const start: Walk = { command: program, given: [], optionsEnded: false, cluster: {} };
  const walk = words.slice(0, -1).reduce(step, start);
  return { candidates: [], namesOf: [], prefix: "", suffix: "", cluster: walk.cluster, ...fitting(walk, last) };
}

type Fitting = Partial<Pick<Position, "candidates" | "namesOf" | "prefix" | "suffix">>;

function fitting(walk: Walk, last: string): Fitting {
  const { command, pending, optionsEnded, given } = walk;
  if (pending !== undefined) return valuesOf(command, pending);
  if (!optionsEnded && last.startsWith("-")) return optionAt(command, last);
  if (command.commands.length === 0) return argumentAt(command, given, last);
  if (given.length > 0) return {};
  const implied = impliedCommand(command);
  return { ...(implied && argumentAt(implied, given, last)), candidates: visibleNames(command) };
}

/** The meaning of the words before the last one. */
interface Walk {
  command: Command;
  given: readonly string[];
  /** The option whose value comes next. */
  pending?: Option;
  /** All words that follow are arguments. */
  optionsEnded: boolean;
  cluster: ClusterOptions;
}

function step({ pending, ...walk }: Walk, word: string): Walk {
  if (pending !== undefined) return { ...walk, cluster: selected(walk.cluster, pending, word) };
  if (!walk.optionsEnded && word.startsWith("-") && word !== "-") return withOption(walk, word);
  const { command, given } = walk;
  const child = given.length > 0 ? undefined : childNamed(command, word);
  if (child !== undefined) return { ...walk, command: child };
  return { ...walk, command: impliedCommand(command) ?? command, given: [...given, word] };
}

function withOption(walk: Walk, word: string): Walk {
  if (word === "--") return { ...walk, optionsEnded: true };
  const [name, attached] = splitOption(word);
  const option = optionNamed(walk.command, name);
  if (option?.required !== true) return walk;
  if (attached === undefined) return { ...walk, pending: option };
  return { ...walk, cluster: selected(walk.cluster, option, attached) };
}

/** `--output=json`, `-ojson`. */
function splitOption(word: string): [name: string, attached?: string] {
  const at = word.startsWith("--") ? word.indexOf("=") : 2;
  if (at < 0 || at >= word.length) return [word];
  return [word.slice(0, at), word.slice(word.startsWith("--") ? at + 1 : at)];
}

function selected(cluster: ClusterOptions, { long }: Option, value: string): ClusterOptions {
  if (long === "--namespace") return { ...cluster, namespace: value };
  if (long === "--kubeconfig") return { ...cluster, kubeconfig: value };
  return long === "--context" ? { ...cluster, context: value } : cluster;
}

/** The command that may be omitted: `ramet claim SET`. */
function impliedCommand(command: Command): Command | undefined {
  return command.name() === "claim" ? childNamed(command, "take") : undefined;
}

function optionsOf(command: Command): readonly Option[] {
  return [...command.options, ...(impliedCommand(command)?.options ?? [])];
}

function optionNamed(command: Command, word: string): Option | undefined {
  return optionsOf(command).find(({ long, short }) => long === word || short === word);
}

function optionAt(command: Command, last: string): Fitting {
  const at = last.indexOf("=");
  const option = at < 0 ? undefined : optionNamed(command, last.slice(0, at));
  if (option?.required === true) return { ...valuesOf(command, option), prefix: last.slice(0, at + 1) };
  const longs = optionsOf(command).flatMap(({ long, hidden }) => (hidden || long == null ? [] : [long]));
  return { candidates: [...new Set([...longs, "--help"])] };
}

function valuesOf(command: Command, option: Option): Fitting {
  if (option.argChoices !== undefined) return { candidates: option.argChoices };
  const alternatives = /<(\w+(?:\|\w+)+)>/.exec(option.flags)?.[1];
  if (alternatives !== undefined) return { candidates: alternatives.split("|") };
  if (option.long === "--name") return isOfLocalCluster(command) ? { namesOf: ["localCluster"] } : {};
  return { namesOf: namesOfOptions[option.long ?? ""] ?? [] };
}

const namesOfOptions: Readonly<Record<string, readonly NameSource[]>> = {
  "--namespace": ["namespace"],
  "--served-namespace": ["namespace"],
  "--context": ["context"],
  "--template": ["template"],
  "--from": ["checkpoint", "snapshot"],
  "--service-account": ["serviceAccount"],
  "--as-service-account": ["serviceAccount"],
};

/** Their `--name` is that of an existing cluster. */
function isOfLocalCluster(command: Command): boolean {
  const parent = command.parent?.name();
  return parent === "local" || parent === "store";
}

function visibleNames(command: Command): string[] {
  return command
    .createHelp()
    .visibleCommands(command)
    .map((one) => one.name())
    .filter((name) => name !== "help");
}

function argumentAt(command: Command, given: readonly string[], last: string): Fitting {
  const argument = argumentNumber(command, given.length);
  if (argument === undefined) return {};
  if (argument.argChoices !== undefined) return { candidates: argument.argChoices };
  if (argument.name() === "kind") return { candidates: userKindNames };
  const path = `${command.parent?.name() ?? ""} ${command.name()}`;
  const own = ownRules[path];
  if (own !== undefined) return own(given, last);
  return { namesOf: namesOfArguments[path]?.[given.length] ?? namesOfOwnKind(command, argument.name()) };
}

const ofGivenKind = ([kind = ""]: readonly string[]): Fitting => ({ namesOf: [kindSpelled(kind) ?? []].flat() });

const ownRules: Readonly<Record<string, (given: readonly string[], last: string) => Fitting>> = {
  "ramet explain": (_, last) => explainArgument(last),
  "ramet get": ofGivenKind,
  "ramet rm": ofGivenKind,
  "sandbox cp": () => ({ namesOf: ["sandbox"], suffix: ":" }),
};

/** The last argument can be a list. */
function argumentNumber({ registeredArguments: all }: Command, index: number) {
  const last = all.at(-1);
  return all[index] ?? (last?.variadic === true ? last : undefined);
}

function namesOfOwnKind(command: Command, argument: string): NameSource[] {
  const group = command.parent?.name();
  return argument === "name" ? userKindNames.filter((one) => one === group) : [];
}

/** Those that are not names of the kind whose command it is. */
const namesOfArguments: Readonly<Record<string, readonly (readonly NameSource[])[]>> = {
  "checkpoint create": [["sandbox"]],
  "claim take": [["set"]],
  "ramet rollback": [["sandbox"], ["checkpoint", "snapshot"]],
  "ramet fork": [["sandbox"]],
  "key create": [[]],
};

function explainArgument(last: string): Fitting {
  const explained = [...userKindNames, ...volumeKindNames];
  const kind = explained.find((one) => last.startsWith(`${one}/`));
  return kind === undefined
    ? { candidates: explained.map((one) => `${one}/`) }
    : { namesOf: [kind], prefix: `${kind}/` };
}

/** `ramet __complete -- WORDS`: prints the candidates for the last word. Never fails: a shell would show the error. */
export async function printCandidates(io: Io, program: Command, words: readonly string[]): Promise<void> {
  const position = positionOf(program, words);
  const { prefix, suffix } = position;
  const names = (await namesAt(io, position)).map((name) => `${name}${suffix}`);
  const last = words.at(-1) ?? "";
  const all = [...position.candidates, ...names];
  const fitting = all.flatMap((one) => (`${prefix}${one}`.startsWith(last) ? [`${prefix}${one}\n`] : []));
  await writeAll(io.stdout, fitting.join(""));
}

async function namesAt(io: Io, { namesOf, cluster }: Position): Promise<string[]> {
  const { clock, signal } = io;
  const listed = namesOf.map(async (source) => {
    try {
      return await within({ clock, milliseconds: 1_000, what: "Listing names", signal }, (inTime) =>
        namesFrom(io, source, cluster, inTime),
      );
    } catch {
      return [];
    }
  });
  return (await Promise.all(listed)).flat();
}

/** All names of a source, in the namespace that the words select. @throws RametError */
async function namesFrom(io: Io, source: NameSource, selected: ClusterOptions, signal: AbortSignal): Promise<string[]> {
  if (source === "localCluster") return (await localClusters(io.environment)).map(({ name }) => name);
  if (source === "context") {
    const { contexts } = await readKubeconfig(await kubeconfigSource(io.environment, selected.kubeconfig));
    return contexts.map(({ name }) => name);
  }
  return withCluster(io, selected, async ({ client, namespace }) => {
    const ref = refOfSource(source);
    const { items } = await client.resource(ref).list({ ...(ref.namespaced ? { namespace } : {}), signal });
    return items.map(({ metadata }) => metadata.name);
  });
}

function refOfSource(source: Exclude<NameSource, "context" | "localCluster">): ResourceRef {
  if (source === "namespace") return coreResources.namespaces;
  if (isVolumeKind(source)) return volumeKinds[source];
  return source === "serviceAccount" ? coreResources.serviceAccounts : refOf(userKinds[source].kind);
}
