import type { Readable } from "node:stream";
import type { CellPodOptions } from "../../../api/cell/cell-pod.ts";
import { actionOf, type CopyStep, type RecipeStep } from "../../../api/recipe/recipe.ts";
import type { SandboxGuest } from "../../../backends/runtime.ts";
import type { Clock } from "../../../base/clock.ts";

/** What `env`, `workdir` and `user` steps have set for the steps that follow. */
export interface StepContext {
  environment: Record<string, string>;
  workingDirectory?: string;
  user?: string;
}

/** What holds for the step at `index`, what it says itself included. */
export function stepContext(recipe: readonly RecipeStep[], index: number): StepContext {
  const before = recipe.slice(0, index).reduce<StepContext>((context, step) => set(context, step), { environment: {} });
  const { env, user, cwd, copy } = recipe[index] ?? {};
  const whose = copy?.user ?? user;
  return {
    ...before,
    environment: { ...before.environment, ...env },
    ...(whose !== undefined && { user: whose }),
    ...(cwd !== undefined && { workingDirectory: cwd }),
  };
}

function set(context: StepContext, step: RecipeStep): StepContext {
  switch (actionOf(step)) {
    case "env":
      return { ...context, environment: { ...context.environment, ...step.env } };
    case "workdir":
      return step.workdir === undefined ? context : { ...context, workingDirectory: step.workdir };
    case "user":
      return step.user === undefined ? context : { ...context, user: step.user };
    default:
      return context;
  }
}

/** How a step ended. */
export interface StepOutcome {
  milliseconds: number;
  /** What it printed; of much, the end. */
  log: string;
  exitCode?: number;
  /** Why it has failed; absent: it has not. */
  error?: string;
}

/** The end of a log, as a status has room for. */
export function lastLines(log: string): string {
  const tail = log.length <= mostCharacters ? log : log.slice(-mostCharacters);
  const lines = tail.split("\n");
  // A log that ends with a line feed has an empty piece after it.
  const kept = lines.slice(-(mostLines + 1));
  const wasCut = tail.length < log.length && kept.length === lines.length;
  return (wasCut ? kept.slice(1) : kept).join("\n") || tail;
}

const mostCharacters = 2_048;
const mostLines = 20;

export interface StepRequest {
  step: RecipeStep;
  context: StepContext;
  /** By which the guest knows the step's command. */
  tag: string;
  /** Whether the step cannot have been begun before. */
  fresh: boolean;
  /** Tags of what earlier steps have started, and how a message calls them. */
  started: ReadonlyMap<string, string>;
}

/** What a step acts on. */
export interface StepEnvironment {
  guest: (user: string | undefined) => SandboxGuest;
  takesConnections: (port: number, signal: AbortSignal) => Promise<boolean>;
  contentOf: ContentOf;
  egress: Egress;
  clock: Clock;
  signal: AbortSignal;
}

/** The bytes that a copy step writes. @throws RametError `NotFound`, `InvalidArgument` when they are not those that were named */
export type ContentOf = (copy: CopyStep, signal: AbortSignal) => Promise<Buffer | Readable>;

/** What sandboxes may reach; absent: all but what is refused to each of them. */
type Egress = CellPodOptions["egress"];

/**
 * That egress is denied, where what a failed command printed last is how programs tell of a refused connection or name.
 * Which one it was only the sandbox's link knows, so this says what is denied, and not that it was that.
 */
export function egressNote(log: string, egress: Egress): string | undefined {
  const sign = signs.find(({ words }) => words.test(lastLines(log)));
  const denied = sign && deniedTo(egress, sign.kind);
  if (denied === undefined) return undefined;
  return `egress is denied to sandboxes${denied}, and what it printed speaks of ${sign?.what}`;
}

const signs = [
  {
    kind: "connection",
    words: /reset by peer|ECONNRESET|Connection (was )?(reset|aborted)/i,
    what: "a connection that was cut",
  },
  {
    kind: "name",
    words: /name resolution|could not resolve|name or service not known|ENOTFOUND|EAI_AGAIN|bad address/i,
    what: "a name that was not found",
  },
] as const;

function deniedTo(egress: Egress, kind: (typeof signs)[number]["kind"]): string | undefined {
  const { default: fallback = "allow", allow = [], deny = [] } = egress ?? {};
  if (fallback === "deny") return allow.length === 0 ? "" : ` except to ${allow.join(", ")}`;
  // Without a rule every name may be asked for.
  if (kind === "name" && deny.length === 0) return undefined;
  return ` for link-local, node and cluster addresses${deny.length === 0 ? "" : ` and for ${deny.join(", ")}`}`;
}
