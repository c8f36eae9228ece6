import * as z from "zod";
import { OptionalFlag, atomicList, exactlyOne, int32, onlyWith, type Rule, withRules } from "../schema/rules.ts";

/** Has size limits because the API server bounds the cost of its rules by the largest possible value. */
const EnvironmentVariables = withRules(
  z.record(z.string().max(256), z.string().max(32_768)).meta({ maxProperties: 100 }),
  [
    {
      cel: "self.size() <= 100 && self.all(name, name.matches('^[A-Za-z_][A-Za-z0-9_]{0,255}$'))",
      message: "env must have at most 100 names of letters, digits and '_' that do not start with a digit",
      holds: (env) => {
        const names = Object.keys(env);
        return names.length <= 100 && names.every((name) => /^[A-Za-z_][A-Za-z0-9_]{0,255}$/.test(name));
      },
    },
  ],
).meta({ maxProperties: 100 });

const UserName = z
  .string()
  .regex(/^[A-Za-z0-9_][A-Za-z0-9._-]{0,63}$/, "must be the name or number of a user of the image");

/** Time limit of a step, at most one day. */
const TimeLimitSeconds = int32.min(1).max(86_400);

/** Default time limit of a `waitFor` step. */
export const waitTimeoutSeconds = 60;

const Shell = z
  .enum(["sh", "bash"])
  .describe("The shell of the command line. bash is a login shell, and /bin/sh in an image without it. Default sh.");
export type Shell = z.infer<typeof Shell>;

/** A condition in the sandbox to wait for. */
export const WaitFor = withRules(
  z.object({
    port: int32
      .min(1)
      .max(65_535)
      .optional()
      .describe("Wait until this TCP port accepts connections from outside the sandbox."),
    file: z
      .string()
      .startsWith("/", "must be an absolute path")
      .max(4096)
      .optional()
      .describe("Wait until this file exists."),
    command: z.string().min(1).max(16_384).optional().describe("Wait until this command line exits with code 0."),
    shell: Shell.optional(),
    timeoutSeconds: TimeLimitSeconds.optional().describe(
      `Time limit after which the step fails. Default ${waitTimeoutSeconds}.`,
    ),
  }),
  [
    exactlyOne(["port", "file", "command"], "waitFor must have exactly one of port, file and command"),
    onlyWith("shell", ["command"], "shell is allowed only with command"),
  ],
);
export type WaitFor = z.infer<typeof WaitFor>;

/** One key of a ConfigMap or Secret of the same namespace. */
const KeyRef = z.object({
  name: z.string().min(1).max(253).describe("The name of the object."),
  key: z.string().min(1).max(253).describe("The key in its data."),
});
export type KeyRef = z.infer<typeof KeyRef>;

const Sha256 = z
  .string()
  .regex(/^[0-9a-f]{64}$/, "must be 64 hex digits")
  .optional();

/** Default mode of a copied file. */
export const copyMode = "0644";

/** Copies one file, or a directory tree, into the sandbox. */
export const CopyStep = withRules(
  z.object({
    path: z
      .string()
      .regex(/^\.?\//, "must be an absolute path, or begin with ./")
      .max(4096)
      .describe(
        "The path of the file in the sandbox. With tree: of the directory that the tree is merged into. A path that begins with ./ is relative to the working directory.",
      ),
    content: z.string().max(262_144).optional().describe("The content of the file as text."),
    configMapKeyRef: KeyRef.optional().describe("The content of the file is this key of a ConfigMap."),
    secretKeyRef: KeyRef.optional().describe(
      "The content of the file is this key of a Secret. Every clone can read it.",
    ),
    url: z
      .string()
      .regex(/^https?:\/\/[^\s]+$/, "must be an http or https URL")
      .max(2048)
      .optional()
      .describe("The controller downloads the file from this URL. Its digest must match sha256."),
    sha256: Sha256.describe("The SHA-256 digest of the file at url, as 64 hex digits."),
    tree: Sha256.describe("The digest of a directory tree that was uploaded to the namespace."),
    treePath: z
      .string()
      .min(1)
      .max(4096)
      .optional()
      .describe("The file or directory in the tree to copy. A file is copied to path. Default: the whole tree."),
    mode: z
      .string()
      .regex(/^0?[0-7]{3}$/, "must be an octal mode like 0755")
      .optional()
      .describe(`The mode of the file in octal. Default ${copyMode}; with tree, the modes of its files.`),
    user: UserName.optional().describe(
      "The owner of the file. Default: the user set by a user step, else the user of the entrypoint.",
    ),
  }),
  [
    exactlyOne(
      ["content", "configMapKeyRef", "secretKeyRef", "url", "tree"],
      "copy must have exactly one of content, configMapKeyRef, secretKeyRef, url and tree",
    ),
    onlyWith("treePath", ["tree"], "treePath is allowed only with tree"),
    {
      cel: "!has(self.treePath) || (!self.treePath.startsWith('/') && !self.treePath.split('/').exists(part, part == '..'))",
      message: "treePath must be a relative path inside the tree",
      fieldPath: ".treePath",
      holds: ({ treePath = "." }) => !treePath.startsWith("/") && !treePath.split("/").includes(".."),
    },
    {
      cel: "has(self.url) == has(self.sha256)",
      message: "url and sha256 must be set together: the digest shows whether the file has changed",
      fieldPath: ".sha256",
      holds: ({ url, sha256 }) => (url === undefined) === (sha256 === undefined),
    },
  ],
);
export type CopyStep = z.infer<typeof CopyStep>;

/** The actions of steps. A step has exactly one; `env` and `user` can also accompany `run` and `start`. */
export type StepAction = "run" | "copy" | "env" | "workdir" | "user" | "start" | "waitFor";

const Directory = z.string().startsWith("/", "must be an absolute path").max(4096);
const Command = z.string().min(1).max(16_384);

/** Default time of a `run` step. */
export const runTimeoutSeconds = 600;

type StepFields = { [Action in StepAction]?: unknown };

const whole = ["run", "copy", "workdir", "start", "waitFor"] as const;
const count = `(${whole.map((action) => `(has(self.${action}) ? 1 : 0)`).join(" + ")})`;

const oneAction: Rule<StepFields> = {
  cel: `${count} == 1 || (${count} == 0 && has(self.env) != has(self.user))`,
  message: "a step must have exactly one of run, copy, env, workdir, user, start and waitFor",
  holds: (step) => {
    const actions = whole.filter((action) => step[action] !== undefined).length;
    return actions === 1 || (actions === 0 && (step.env === undefined) !== (step.user === undefined));
  },
};

const environmentWithCommand: Rule<StepFields> = {
  cel: "!(has(self.copy) || has(self.workdir) || has(self.waitFor)) || !(has(self.env) || has(self.user))",
  message:
    "env and user are allowed only with run or start, or alone to apply to all later steps; to set the owner of a copied file, use copy.user",
  holds: ({ copy, workdir, waitFor, env, user }) =>
    (copy === undefined && workdir === undefined && waitFor === undefined) || (env === undefined && user === undefined),
};

export const RecipeStep = withRules(
  z.object({
    run: Command.optional().describe("A command line for /bin/sh. It must exit with code 0."),
    copy: CopyStep.optional().describe("Writes a file, or the files of a tree."),
    env: EnvironmentVariables.optional().describe(
      "Environment variables. With run or start: for that command. Alone: for all later steps.",
    ),
    workdir: Directory.optional().describe("The working directory of all later steps."),
    user: UserName.optional().describe(
      "A user of the image. With run or start: for that command. Alone: for all later steps.",
    ),
    start: Command.optional().describe(
      "A command line for /bin/sh that keeps running. Every clone has it in its memory.",
    ),
    mayEnd: OptionalFlag.describe(
      "With start: whether the command may end before the last step. Default: the build fails if it ends.",
    ),
    waitFor: WaitFor.optional().describe(
      "Waits until a port accepts connections, a file exists or a command succeeds.",
    ),
    cwd: Directory.optional().describe("With run or start: the working directory of that command."),
    shell: Shell.optional(),
    timeoutSeconds: TimeLimitSeconds.optional().describe(
      `With run: time limit after which the command is killed and the step fails. Default ${runTimeoutSeconds}.`,
    ),
  }),
  [
    oneAction,
    onlyWith(
      "cwd",
      ["run", "start"],
      "cwd is allowed only with run or start; to set the directory of later steps, use a workdir step",
    ),
    onlyWith("shell", ["run", "start"], "shell is allowed only with run or start; for a wait, use waitFor.shell"),
    onlyWith(
      "timeoutSeconds",
      ["run"],
      "timeoutSeconds is allowed only with run; to limit a wait, use waitFor.timeoutSeconds",
    ),
    onlyWith("mayEnd", ["start"], "mayEnd is allowed only with start"),
    environmentWithCommand,
  ],
);
export type RecipeStep = z.infer<typeof RecipeStep>;

/** Ordered steps. Each starts from the state, including memory, that the previous one left. */
export const Recipe = atomicList(RecipeStep).max(100);

/** The action of a step; `run` for a step with `run` and `env`. */
export function actionOf(step: RecipeStep): StepAction {
  return whole.find((action) => step[action] !== undefined) ?? (step.env === undefined ? "user" : "env");
}

/** The step in one line for progress and messages, like `run pip install pandas`. Never includes the content of a copy. */
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
