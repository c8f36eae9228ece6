import * as z from "zod";
import { type Rule, withRules } from "../schema/rules.ts";

/** Bounded, as the API server bounds what its rules may cost by the most that they could see. */
const EnvironmentVariables = withRules(
  z.record(z.string().max(256), z.string().max(32_768)).meta({ maxProperties: 100 }),
  [
    {
      cel: "self.size() <= 100 && self.all(name, name.matches('^[A-Za-z_][A-Za-z0-9_]{0,255}$'))",
      message: "env holds at most 100 names of letters, digits and '_' that do not begin with a digit",
      holds: (env) => {
        const names = Object.keys(env);
        return names.length <= 100 && names.every((name) => /^[A-Za-z_][A-Za-z0-9_]{0,255}$/.test(name));
      },
    },
  ],
).meta({ maxProperties: 100 });

/** As the image knows it. */
const UserName = z
  .string()
  .regex(/^[A-Za-z0-9_][A-Za-z0-9._-]{0,63}$/, "must be a name or a number that the image knows");

/** How long one step may last: a day at most. */
const TimeLimitSeconds = z.int().min(1).max(86_400).meta({ format: "int32" });

/** How long a wait lasts that does not say. */
export const waitTimeoutSeconds = 60;

/** Until something holds in the sandbox. */
export const WaitFor = withRules(
  z.object({
    port: z
      .int()
      .min(1)
      .max(65_535)
      .meta({ format: "int32" })
      .optional()
      .describe("Until this TCP port takes connections from outside the sandbox."),
    file: z.string().startsWith("/", "must be an absolute path").max(4096).optional().describe("Until this exists."),
    command: z.string().min(1).max(16_384).optional().describe("Until this command line ends with exit code 0."),
    timeoutSeconds: TimeLimitSeconds.optional().describe(
      `After this the step has failed. Default ${waitTimeoutSeconds}.`,
    ),
  }),
  [
    {
      cel: "(has(self.port) ? 1 : 0) + (has(self.file) ? 1 : 0) + (has(self.command) ? 1 : 0) == 1",
      message: "waitFor must name exactly one thing: port, file or command",
      holds: ({ port, file, command }) => [port, file, command].filter((one) => one !== undefined).length === 1,
    },
  ],
);
export type WaitFor = z.infer<typeof WaitFor>;

/** One key of a ConfigMap or Secret of the same namespace. */
const KeyRef = z.object({ name: z.string().min(1).max(253), key: z.string().min(1).max(253) });
export type KeyRef = z.infer<typeof KeyRef>;

/** The mode of a file that does not say one. */
export const copyMode = "0644";

/** One file for the sandbox. */
export const CopyStep = withRules(
  z.object({
    path: z.string().startsWith("/", "must be an absolute path").max(4096).describe("Where the file goes."),
    content: z.string().max(262_144).optional().describe("The file as text."),
    configMapKeyRef: KeyRef.optional().describe("The file is a key of this ConfigMap."),
    secretKeyRef: KeyRef.optional().describe("The file is a key of this Secret; every clone can read it."),
    url: z
      .string()
      .regex(/^https?:\/\/[^\s]+$/, "must be an http or https URL")
      .max(2048)
      .optional()
      .describe("The file is fetched from here; it must have the sha256."),
    sha256: z
      .string()
      .regex(/^[0-9a-f]{64}$/, "must be 64 hex digits")
      .optional()
      .describe("Of the file at the url."),
    mode: z
      .string()
      .regex(/^0?[0-7]{3}$/, "must be an octal mode like 0755")
      .optional()
      .describe(`Octal. Default ${copyMode}.`),
    user: UserName.optional().describe("Whose file it is. Default: the user of the steps, else the entrypoint's."),
  }),
  [
    {
      cel: "(has(self.content) ? 1 : 0) + (has(self.configMapKeyRef) ? 1 : 0) + (has(self.secretKeyRef) ? 1 : 0) + (has(self.url) ? 1 : 0) == 1",
      message: "a copy must have exactly one source: content, configMapKeyRef, secretKeyRef or url",
      holds: ({ content, configMapKeyRef, secretKeyRef, url }) =>
        [content, configMapKeyRef, secretKeyRef, url].filter((source) => source !== undefined).length === 1,
    },
    {
      cel: "has(self.url) == has(self.sha256)",
      message: "url and sha256 belong together: without its digest nobody can say whether the file has changed",
      fieldPath: ".sha256",
      holds: ({ url, sha256 }) => (url === undefined) === (sha256 === undefined),
    },
  ],
);
export type CopyStep = z.infer<typeof CopyStep>;

/** What a step can do. A step has one of these; `env` and `user` also stand beside `run` and `start`. */
export const stepActions = ["run", "copy", "env", "workdir", "user", "start", "waitFor"] as const;
export type StepAction = (typeof stepActions)[number];

const Directory = z.string().startsWith("/", "must be an absolute path").max(4096);
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
    workdir: Directory.optional().describe("The folder in which the steps that follow run."),
    user: UserName.optional().describe("Beside run or start: who runs it. Alone: for all steps that follow."),
    start: Command.optional().describe(
      "A command line for /bin/sh that goes on running, and is in the memory of every clone.",
    ),
    waitFor: WaitFor.optional(),
    cwd: Directory.optional().describe("Beside run or start: the folder of that command."),
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
