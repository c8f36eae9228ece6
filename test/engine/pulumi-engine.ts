import { mkdir, readdir, readFile, readlink, realpath, writeFile } from "node:fs/promises";
import { join } from "node:path";
import {
  CommandError,
  type EngineEvent,
  LocalWorkspace,
  type OutputMap,
  type PulumiCommand,
  type Stack,
} from "@pulumi/pulumi/automation/index.js";
import { parse, stringify } from "yaml";
import { type Engine, type EngineOptions, renderSteps, type RunResult, upAfterPreview } from "./engine.ts";
import { EventRecord } from "./event-record.ts";

export interface PulumiEngineOptions extends EngineOptions {
  command: PulumiCommand;
  /** Whether `pulumi` has its own home directory and uses only plugins on the PATH, without downloads. @default false */
  isolated?: boolean;
}

/** Runs a program with the `pulumi` command and a state in a directory. Reports results like the stand-in. */
export class PulumiEngine implements Engine {
  readonly description: string;
  readonly #options: PulumiEngineOptions;

  constructor(options: PulumiEngineOptions) {
    this.#options = options;
    this.description = `pulumi ${String(options.command.version)} runs the program`;
  }

  get statePath(): string {
    const { project, stack } = this.#options;
    return join(this.#backend, ".pulumi/stacks", project, `${stack}.json`);
  }

  with(options: Partial<EngineOptions>): PulumiEngine {
    return new PulumiEngine({ ...this.#options, ...options });
  }

  preview(): Promise<RunResult> {
    return this.#run((stack, options) => stack.preview({ ...options, ...this.#policyOptions }));
  }

  /** The Automation API omits the preview with which the command starts. */
  up(): Promise<RunResult> {
    return upAfterPreview(this, this.#options, () =>
      this.#run((stack, options) => stack.up({ ...options, ...this.#policyOptions })),
    );
  }

  refresh(): Promise<RunResult> {
    return this.#run((stack, options) => stack.refresh(options), { isRefresh: true });
  }

  destroy(): Promise<RunResult> {
    return this.#run((stack, options) => stack.destroy(options));
  }

  /** Removes the lock of a killed run. */
  async cancel(): Promise<void> {
    await (await this.#stack()).cancel();
  }

  async #run(
    work: (stack: Stack, options: RunOptions) => Promise<{ stdout: string; outputs?: OutputMap }>,
    { isRefresh = false } = {},
  ): Promise<RunResult> {
    const { program, signal, onLine } = this.#options;
    const stack = await this.#stack();
    const record = new EventRecord({
      isRefresh,
      onLine: (line) => onLine?.(line, () => void killIn(program, /cmd\/dynamic-provider/)),
    });
    const onEvent = (event: EngineEvent): void => {
      record.take(event);
    };
    const { outputs, problem } = await work(stack, { onEvent, color: "never", ...(signal && { signal }) }).then(
      ({ outputs: made }) => ({ outputs: made && valuesOf(made), problem: undefined }),
      (error: unknown) => {
        if (error instanceof CommandError) return { outputs: undefined, problem: error.message };
        throw error;
      },
    );
    const { steps, lines, hasError } = record;
    // If the command fails before its engine starts, only the command reports the reason.
    if (problem !== undefined && !hasError) lines.push(problem);
    const text = [...renderSteps(steps), ...lines].join("\n");
    return { succeeded: problem === undefined, steps, outputs: outputs ?? record.outputs, lines, text };
  }

  /** Opens the stack with exactly the configuration of these options. */
  async #stack(): Promise<Stack> {
    const { program, project, stack: stackName, typescript = false, command: pulumiCommand } = this.#options;
    await mkdir(this.#backend, { recursive: true });
    const settings = { name: project, runtime: { name: "nodejs", options: { typescript } } };
    await writeFile(join(program, "Pulumi.yaml"), stringify(settings));
    const workspace = { pulumiCommand, envVars: this.#environment };
    const stack = await LocalWorkspace.createOrSelectStack({ stackName, workDir: program }, workspace);
    await this.#configure(stack);
    return stack;
  }

  async #configure(stack: Stack): Promise<void> {
    const { program, stack: name, configuration = {}, secretKeys = [] } = this.#options;
    const path = join(program, `Pulumi.${name}.yaml`);
    // The file is missing if the stack belonged to another program's directory before.
    const settings = parse(await readFile(path, "utf8").catch(() => "{}")) as Record<string, unknown>;
    const { config: _before, ...rest } = settings;
    await writeFile(path, stringify(rest));
    const values = Object.entries(configuration).map(
      ([key, value]) => [key, { value, secret: secretKeys.includes(key) }] as const,
    );
    if (values.length > 0) await stack.setAllConfig(Object.fromEntries(values));
  }

  get #policyOptions(): { policyPacks?: string[] } {
    const { policyPack } = this.#options;
    return policyPack === undefined ? {} : { policyPacks: [policyPack] };
  }

  get #backend(): string {
    return join(this.#options.stateDirectory, "state");
  }

  get #environment(): Record<string, string> {
    const { kubeconfig, passphrase, stateDirectory, isolated = false } = this.#options;
    return {
      KUBECONFIG: kubeconfig,
      PULUMI_BACKEND_URL: `file://${this.#backend}`,
      PULUMI_CONFIG_PASSPHRASE: passphrase,
      PULUMI_SKIP_UPDATE_CHECK: "true",
      ...(isolated && {
        PULUMI_HOME: join(stateDirectory, "home"),
        PULUMI_DISABLE_AUTOMATIC_PLUGIN_ACQUISITION: "true",
      }),
    };
  }
}

interface RunOptions {
  onEvent: (event: EngineEvent) => void;
  color: "never";
  signal?: AbortSignal;
}

function valuesOf(outputs: OutputMap): Record<string, unknown> {
  return Object.fromEntries(Object.entries(outputs).map(([name, { value }]) => [name, value as unknown]));
}

/**
 * Kills `pulumi` and the processes that it started in a program's directory without warning, as the out-of-memory killer does.
 * `commandLine` restricts this to processes with a matching command line.
 */
export async function killIn(program: string, commandLine = /./): Promise<void> {
  const directory = await realpath(program);
  const pids = (await readdir("/proc")).filter((entry) => /^\d+$/.test(entry));
  for (const pid of pids) {
    // The process may have ended in the meantime.
    const at = await readlink(`/proc/${pid}/cwd`).catch(() => "");
    const words = at === directory ? await readFile(`/proc/${pid}/cmdline`, "utf8").catch(() => "") : "";
    if (words !== "" && commandLine.test(words)) kill(Number(pid));
  }
}

function kill(pid: number): void {
  try {
    process.kill(pid, "SIGKILL");
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "ESRCH") throw error;
  }
}
