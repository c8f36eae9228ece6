import type { Readable } from "node:stream";
import type { CopyStep } from "../../../api/recipe/copy-step.ts";
import type { RecipeStep } from "../../../api/recipe/recipe.ts";
import type { SandboxGuest } from "../../../backends/sandbox-access.ts";
import type { Clock } from "../../../base/clock.ts";
import type { Egress } from "./egress-note.ts";
import type { StepContext } from "./step-context.ts";

export interface StepWish {
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
export interface StepSurroundings {
  guest: (user: string | undefined) => SandboxGuest;
  takesConnections: (port: number, signal: AbortSignal) => Promise<boolean>;
  contentOf: ContentOf;
  egress: Egress;
  clock: Clock;
  signal: AbortSignal;
}

/** The bytes that a copy step writes. @throws RametError `NotFound`, `InvalidArgument` when they are not those that were named */
export type ContentOf = (copy: CopyStep, signal: AbortSignal) => Promise<Buffer | Readable>;
