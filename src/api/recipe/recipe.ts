import { z } from "zod";
import { CopyStep } from "./copy-step.ts";
import { EnvironmentVariables, TimeLimitSeconds, UserName } from "./step-fields.ts";
import { WaitFor } from "./wait-step.ts";
import { type Rule, withRules } from "../schema/rules.ts";

/** What a step can do. A step has one of these; `env` and `user` also stand beside `run` and `start`. */
export const stepActions = ["run", "copy", "env", "workdir", "user", "start", "waitFor"] as const;
export type StepAction = (typeof stepActions)[number];

const Folder = z.string().startsWith("/", "must be an absolute path").max(4096);
const Command = z.string().min(1).max(16_384);

/** Default time of a `run` step. */
export const runTimeoutSeconds = 600;

interface StepFields {
  run?: unknown;
  copy?: unknown;
  env?: unknown;
  workdir?: unknown;
  user?: unknown;
  start?: unknown;
  waitFor?: unknown;
  cwd?: unknown;
  timeoutSeconds?: unknown;
}

const whole = ["run", "copy", "workdir", "start", "waitFor"] as const;
const count = `(${whole.map((action) => `(has(self.${action}) ? 1 : 0)`).join(" + ")})`;

const oneAction: Rule<StepFields> = {
  cel: `${count} == 1 || (${count} == 0 && has(self.env) != has(self.user))`,
  message: "a step must have exactly one action: run, copy, env, workdir, user, start or waitFor",
  holds: (step) => {
    const actions = whole.filter((action) => step[action] !== undefined).length;
    return actions === 1 || (actions === 0 && (step.env === undefined) !== (step.user === undefined));
  },
};

const besideCommands: Rule<StepFields> = {
  cel: "has(self.run) || has(self.start) || !has(self.cwd)",
  message: "cwd belongs to run or start; for all steps that follow, use a workdir step",
  fieldPath: ".cwd",
  holds: ({ run, start, cwd }) => run !== undefined || start !== undefined || cwd === undefined,
};

const timeOfRun: Rule<StepFields> = {
  cel: "has(self.run) || !has(self.timeoutSeconds)",
  message: "timeoutSeconds belongs to run; waitFor has one of its own",
  fieldPath: ".timeoutSeconds",
  holds: ({ run, timeoutSeconds }) => run !== undefined || timeoutSeconds === undefined,
};

const noneBeside: Rule<StepFields> = {
  cel: "!(has(self.copy) || has(self.workdir) || has(self.waitFor)) || !(has(self.env) || has(self.user))",
  message: "env and user stand beside run and start, or alone for all steps that follow; a copy has a user of its own",
  holds: ({ copy, workdir, waitFor, env, user }) =>
    (copy === undefined && workdir === undefined && waitFor === undefined) || (env === undefined && user === undefined),
};

export const RecipeStep = withRules(
  z.object({
    run: Command.optional().describe("A command line for /bin/sh; it must end with exit code 0."),
    copy: CopyStep.optional(),
    env: EnvironmentVariables.optional().describe(
      "Beside run or start: for that command. Alone: for all steps that follow.",
    ),
    workdir: Folder.optional().describe("The folder in which the steps that follow run."),
    user: UserName.optional().describe("Beside run or start: who runs it. Alone: for all steps that follow."),
    start: Command.optional().describe(
      "A command line for /bin/sh that goes on running, and is in the memory of every clone.",
    ),
    waitFor: WaitFor.optional(),
    cwd: Folder.optional().describe("Beside run or start: the folder of that command."),
    timeoutSeconds: TimeLimitSeconds.optional().describe(
      `Beside run: after this the command is killed and has failed. Default ${runTimeoutSeconds}.`,
    ),
  }),
  [oneAction, besideCommands, timeOfRun, noneBeside],
);
export type RecipeStep = z.infer<typeof RecipeStep>;

/** Ordered steps. Each is given the state, memory included, that the one before it left. */
export const Recipe = z.array(RecipeStep).max(100).meta({ "x-kubernetes-list-type": "atomic" });

/** What the step does; of `env` beside `run`, it is `run`. */
export function actionOf(step: RecipeStep): StepAction {
  return whole.find((action) => step[action] !== undefined) ?? (step.env === undefined ? "user" : "env");
}

/** The step in one line, as progress and messages show it: `run pip install pandas`. Never the content of a copy. */
export function describeStep(step: RecipeStep): string {
  return oneLine(`${actionOf(step)} ${subject(step)}`);
}

function subject(step: RecipeStep): string {
  const { run, start, copy, workdir, waitFor, env, user } = step;
  if (waitFor !== undefined) return waited(waitFor);
  return run ?? start ?? copy?.path ?? workdir ?? (env === undefined ? (user ?? "") : Object.keys(env).join(", "));
}

function waited({ port, file, command }: NonNullable<RecipeStep["waitFor"]>): string {
  return port === undefined ? (file ?? command ?? "") : `port ${port}`;
}

function oneLine(text: string): string {
  const line = text.replace(/\s+/g, " ").trim();
  return line.length <= mostShown ? line : `${line.slice(0, mostShown - 1)}…`;
}

const mostShown = 120;
