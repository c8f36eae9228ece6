import { posix } from "node:path";
import type { RecipeStep, WaitFor } from "../../../api/recipe/recipe.ts";
import { RametError } from "../../../base/errors.ts";
import type { StartBuild, TemplateStep } from "./schemas.ts";

/** A recipe, and for each of its steps the step of the client that it belongs to, in the words of E2B. */
export interface TemplateRecipe {
  recipe: RecipeStep[];
  origins: string[];
}

/** The step to which E2B's clients attribute the start and ready commands. */
const finalizeStep = "finalize";

/**
 * Translates the steps of a client. A step of the client that needs more than one step of the recipe, such as a working directory
 * that may not exist, has them one after the other.
 * @param buildId makes the digests of forced steps differ from those of all other builds
 * @throws RametError `InvalidArgument`, `NotSupported`, naming the step
 */
export function templateRecipe(build: StartBuild, buildId: string): TemplateRecipe {
  const all: { step: RecipeStep; origin: string }[] = [];
  const context: Context = { environment: {}, isForced: false };
  const add = (origin: string, steps: RecipeStep[]): void => {
    all.push(...steps.map((step) => ({ step, origin })));
  };
  if (build.force === true) add("base", forced(context, buildId));
  for (const [index, step] of build.steps.entries()) {
    const origin = String(index + 1);
    if (step.force === true && !context.isForced) add(origin, forced(context, buildId));
    add(origin, stepsOf(step, origin, context));
  }
  add(finalizeStep, startSteps(build));
  if (all.length <= mostSteps) return { recipe: all.map(({ step }) => step), origins: all.map(({ origin }) => origin) };
  throw new RametError("InvalidArgument", `The template has ${all.length} steps, and may have at most ${mostSteps}`, {
    hint: "Join commands with &&, or build from another template",
  });
}

const mostSteps = 100;

/** The settings of earlier steps. */
interface Context {
  environment: Record<string, string>;
  workdir?: string;
  user?: string;
  isForced: boolean;
}

/** A variable whose value differs in each build, so no state of another build is used from here on. */
function forced(context: Context, buildId: string): RecipeStep[] {
  context.isForced = true;
  return [{ env: { E2B_BUILD_ID: buildId } }];
}

function stepsOf(step: TemplateStep, origin: string, context: Context): RecipeStep[] {
  const { args } = step;
  switch (step.type.toUpperCase()) {
    case "RUN":
      return run(args, origin);
    case "ENV":
      return environment(args, origin, context);
    case "WORKDIR":
      return workdir(args, origin, context);
    case "USER":
      return user(args, origin, context);
    case "COPY":
      return copy(step, origin, context);
    default:
      throw new RametError("NotSupported", `Step ${origin} has the type ${step.type}, which is not supported`);
  }
}

function run([command, as = ""]: readonly string[], origin: string): RecipeStep[] {
  if (command === undefined || command.trim() === "") throw invalid(origin, "RUN has no command");
  return [{ run: command, shell: "bash", ...(as !== "" && { user: userOf(as, origin) }), timeoutSeconds: runSeconds }];
}

/** Clients of E2B limit only the whole build. */
const runSeconds = 3600;

function environment(args: readonly string[], origin: string, context: Context): RecipeStep[] {
  if (args.length === 0 || args.length % 2 !== 0) throw invalid(origin, "ENV needs pairs of a name and a value");
  const env: Record<string, string> = {};
  for (let at = 0; at < args.length; at += 2) {
    const name = args[at] ?? "";
    env[name] = expand(args[at + 1] ?? "", { name, origin, values: context.environment });
    context.environment[name] = env[name];
  }
  return [{ env }];
}

/** The controllers cannot see the variables of an image, so only those of earlier steps can be referred to. */
function expand(
  value: string,
  { name, origin, values }: { name: string; origin: string; values: Readonly<Record<string, string>> },
): string {
  return value.replace(/\$(?:(\w+)|\{(\w+)\})/g, (_, plain?: string, braced?: string) => {
    const referred = plain ?? braced ?? "";
    const found = Object.hasOwn(values, referred) ? values[referred] : undefined;
    if (found !== undefined) return found;
    throw new RametError("NotSupported", `Step ${origin}: ${name} refers to ${referred}, which no earlier step sets`, {
      hint: `Write the value of ${referred}`,
    });
  });
}

/** As in E2B, a missing directory is created, and belongs to the user of the steps. */
function workdir([path]: readonly string[], origin: string, context: Context): RecipeStep[] {
  if (path === undefined || path === "") throw invalid(origin, "WORKDIR has no path");
  context.workdir = posix.resolve(context.workdir ?? "/", path);
  const directory = shellQuoted(context.workdir);
  const owned = context.user === undefined ? "" : ` && chown ${context.user} ${directory}`;
  const create = `[ -d ${directory} ] || { mkdir -p ${directory}${owned}; }`;
  return [{ run: create, user: "0", cwd: "/" }, { workdir: context.workdir }];
}

/** As in E2B, a missing user is created. */
function user([name, sudo]: readonly string[], origin: string, context: Context): RecipeStep[] {
  if (sudo === "true") throw new RametError("NotSupported", `Step ${origin}: USER cannot add a user to sudoers`);
  const as = userOf(name ?? "", origin);
  context.user = as;
  if (as === "root" || /^\d+$/.test(as)) return [{ user: as }];
  const create = `id -u ${as} >/dev/null 2>&1 || useradd --create-home ${as} || adduser -D ${as}`;
  return [{ run: create, user: "0", cwd: "/" }, { user: as }];
}

/** The archive has the files that the client has found for the source, with their paths from the client's directory. */
function copy({ args, filesHash }: TemplateStep, origin: string, { workdir }: Context): RecipeStep[] {
  const [source = "", target = "", owner = "", mode = ""] = args;
  if (source === "" || target === "") throw invalid(origin, "COPY needs a source and a target");
  if (!hasText(filesHash)) throw invalid(origin, "COPY has no filesHash");
  const treePath = withoutPattern(source);
  return [
    {
      copy: {
        path: targetPath(target, workdir),
        tree: filesHash,
        ...(treePath !== "." && { treePath }),
        ...(owner !== "" && { user: userOf(owner, origin) }),
        ...(mode !== "" && { mode }),
      },
    },
  ];
}

/** A target that names a directory keeps its slash, so a file is copied into it. */
function targetPath(target: string, workdir: string | undefined): string {
  const isRelative = workdir === undefined && !target.startsWith("/");
  const path = isRelative
    ? `./${posix.normalize(target)}`.replace(/\/\.?$/, "")
    : posix.resolve(workdir ?? "/", target);
  return /(^|\/)\.?$/.test(target) && path !== "/" ? `${path}/` : path;
}

/** The part of a source before its first pattern: the client has found the files. */
function withoutPattern(source: string): string {
  const parts = posix.normalize(source).replace(/\/+$/, "").split("/");
  const first = parts.findIndex((part) => /[*?[{]|[!+@]\(/.test(part));
  return (first < 0 ? parts : parts.slice(0, first)).join("/") || ".";
}

/** The user of `name` or `name:group`. @throws RametError `InvalidArgument`, `NotSupported` for a group of another name */
function userOf(text: string, origin: string): string {
  const [name = "", group = name] = text.split(":");
  if (!/^[A-Za-z0-9_][A-Za-z0-9._-]{0,63}$/.test(name)) throw invalid(origin, `${JSON.stringify(text)} is not a user`);
  if (group === name) return name;
  throw new RametError("NotSupported", `Step ${origin}: the group ${group} is not that of the user ${name}`);
}

function startSteps({ startCmd, readyCmd }: StartBuild): RecipeStep[] {
  const start: RecipeStep[] = hasText(startCmd) ? [{ start: startCmd, shell: "bash", mayEnd: true }] : [];
  if (hasText(readyCmd)) return [...start, { waitFor: readyCondition(readyCmd) }];
  // E2B waits for 20 seconds if it cannot know when the command is ready.
  return start.length === 0 ? [] : [...start, { run: "sleep 20" }];
}

function hasText(text: string | null | undefined): text is string {
  return text !== undefined && text !== null && text.trim() !== "";
}

function invalid(origin: string, problem: string): RametError {
  return new RametError("InvalidArgument", `Step ${origin} is not valid: ${problem}`);
}

function shellQuoted(text: string): string {
  return `'${text.replaceAll("'", `'\\''`)}'`;
}

/**
 * The condition of a ready command. Those of the SDKs' helpers for ports and files become the conditions of recipes, because few
 * images have `ss`; all others are run until they succeed.
 */
export function readyCondition(command: string): WaitFor {
  const text = command.trim();
  const port = Number(/^\[ -n "\$\(ss -Htuln sport = :(\d{1,5})\)" \]$/.exec(text)?.[1]);
  if (port >= 1 && port <= 65_535) return { port, timeoutSeconds };
  const file = /^\[ -f (?:'([^']+)'|([\w./-]+)) \]$/.exec(text);
  const path = file?.[1] ?? file?.[2];
  if (path?.startsWith("/") === true) return { file: path, timeoutSeconds };
  return { command: text, shell: "bash", timeoutSeconds };
}

/** As long as E2B waits. */
const timeoutSeconds = 600;
