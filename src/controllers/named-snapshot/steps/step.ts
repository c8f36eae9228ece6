import type { Readable } from "node:stream";
import type { CellPodOptions } from "../../../api/pod/cell-pod.ts";
import { actionOf, type CopyStep, type RecipeStep, type Shell } from "../../../api/recipe/recipe.ts";
import type { SandboxGuest } from "../../../backends/runtime.ts";
import type { Clock } from "../../../base/clock.ts";
import { defined } from "../../../base/defined.ts";

/** Settings of `env`, `workdir` and `user` steps for the steps after them. */
export interface StepContext {
  environment: Record<string, string>;
  workingDirectory?: string;
  user?: string;
  /** The shell of this step only. @default sh */
  shell?: Shell;
}

/** The settings for the step at `index`, including its own. */
export function stepContext(recipe: readonly RecipeStep[], index: number): StepContext {
  const before = recipe.slice(0, index).reduce<StepContext>((context, step) => set(context, step), { environment: {} });
  const { env, user, cwd, copy, waitFor, shell = waitFor?.shell } = recipe[index] ?? {};
  const whose = copy?.user ?? user;
  return {
    ...before,
    environment: { ...before.environment, ...env },
    ...defined({ user: whose, workingDirectory: cwd, shell }),
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
  /** The end of its output. */
  log: string;
  exitCode?: number;
  /** Why it failed; absent if it succeeded. */
  error?: string;
}

/** The end of a log, short enough for a status. */
export function lastLines(log: string): string {
  const tail = log.length <= mostCharacters ? log : log.slice(-mostCharacters);
  const lines = tail.split("\n");
  // A log that ends with a line feed has an empty element after it.
  const kept = lines.slice(-(mostLines + 1));
  const isTruncated = tail.length < log.length && kept.length === lines.length;
  return (isTruncated ? kept.slice(1) : kept).join("\n") || tail;
}

const mostCharacters = 2_048;
const mostLines = 20;

export interface StepRequest {
  step: RecipeStep;
  context: StepContext;
  /** Identifies the step's command in the guest. */
  tag: string;
  /** Whether no earlier controller can have started the step. */
  fresh: boolean;
  /** Commands of earlier `start` steps: tag, and a description for messages. */
  started: ReadonlyMap<string, string>;
}

export interface StepEnvironment {
  guest: (user: string | undefined) => SandboxGuest;
  takesConnections: (port: number, signal: AbortSignal) => Promise<boolean>;
  contentOf: ContentOf;
  treeOf: TreeOf;
  egress: Egress;
  clock: Clock;
  signal: AbortSignal;
}

/** Returns the content that a copy step writes. @throws RametError `NotFound`, `InvalidArgument` for another digest than the step names */
export type ContentOf = (copy: CopyStep, signal: AbortSignal) => Promise<Buffer | Readable>;

/**
 * Calls `use` with the archive of an uploaded tree, and afterwards checks what it has read.
 * @throws RametError `NotFound` if the tree was not uploaded; `Unavailable`
 */
export type TreeOf = (digest: string, use: (archive: Readable) => Promise<void>, signal: AbortSignal) => Promise<void>;

/** Egress rules of sandboxes; absent: only the built-in denials apply. */
type Egress = CellPodOptions["egress"];

/**
 * Mentions denied egress if the last lines of a failed command look like a failed connection or name lookup. Only the
 * sandbox's link knows whether egress was the cause, so the note does not claim it.
 */
export function egressNote(log: string, egress: Egress): string | undefined {
  const sign = signs.find(({ words }) => words.test(lastLines(log)));
  const denied = sign && deniedTo(egress, sign.kind);
  if (denied === undefined) return undefined;
  return `egress of sandboxes is denied${denied}, and the output mentions ${sign?.what}`;
}

const signs = [
  {
    kind: "connection",
    words: /reset by peer|ECONNRESET|Connection (was )?(reset|aborted)/i,
    what: "a reset connection",
  },
  {
    kind: "name",
    words: /name resolution|could not resolve|name or service not known|ENOTFOUND|EAI_AGAIN|bad address/i,
    what: "a name that cannot be resolved",
  },
] as const;

function deniedTo(egress: Egress, kind: (typeof signs)[number]["kind"]): string | undefined {
  const { narrowedBy = [], ...top } = egress ?? {};
  const layers = [top, ...narrowedBy];
  const deny = layers.flatMap((layer) => layer.deny ?? []);
  // The narrowest layer that denies by default decides what is left.
  const { default: fallback, allow = [] } = layers.findLast((layer) => layer.default === "deny") ?? top;
  if (fallback === "deny") return allow.length === 0 ? "" : ` except to ${allow.join(", ")}`;
  // Without a deny rule, every name can be resolved.
  if (kind === "name" && deny.length === 0) return undefined;
  return ` for link-local, node and cluster addresses${deny.length === 0 ? "" : ` and for ${deny.join(", ")}`}`;
}
