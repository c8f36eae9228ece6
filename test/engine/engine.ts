import type { Operation, Step } from "./deployment.ts";
import type { Values } from "./values.ts";

export interface EngineOptions {
  /** The program's directory. */
  program: string;
  /** The directory of the state file. */
  stateDirectory: string;
  kubeconfig: string;
  project: string;
  stack: string;
  passphrase: string;
  configuration?: Record<string, string>;
  secretKeys?: string[];
  /** The directory of a policy pack that validates each resource. */
  policyPack?: string;
  /** The option `typescript` of `Pulumi.yaml`. @default false */
  typescript?: boolean;
  /** Stops the run and all its processes. Operations that have started in the cluster continue there. */
  signal?: AbortSignal;
  /**
   * Called with each line as it is printed. `killProvider` kills the process for dynamic resources, to test interrupted
   * operations.
   */
  onLine?: (line: string, killProvider: () => void) => void;
}

export interface RunResult {
  succeeded: boolean;
  steps: Step[];
  outputs: Values;
  /** The output of the program and of the resources. */
  lines: string[];
  /** One line for each changed resource, followed by the output. */
  text: string;
}

/** Runs a Pulumi program with the `pulumi` command or with a stand-in for it. Each call reads the state again. */
export interface Engine {
  /** Names the engine for people. */
  readonly description: string;
  readonly statePath: string;
  /** The same stack with other options. */
  with(options: Partial<EngineOptions>): Engine;
  preview(): Promise<RunResult>;
  up(): Promise<RunResult>;
  /** Updates the state to match the cluster. */
  refresh(): Promise<RunResult>;
  /** Does not run the program. */
  destroy(): Promise<RunResult>;
}

/** With a policy pack, runs a preview first and stops if it fails, as the command `pulumi up` does. */
export async function upAfterPreview(
  engine: Pick<Engine, "preview">,
  { policyPack }: Pick<EngineOptions, "policyPack">,
  up: () => Promise<RunResult>,
): Promise<RunResult> {
  if (policyPack !== undefined) {
    const preview = await engine.preview();
    if (!preview.succeeded) return preview;
  }
  return up();
}

/** Renders one line for each step except `same`: sign, name, type, operation, and the changed inputs. */
export function renderSteps(steps: readonly Step[]): string[] {
  return steps
    .filter(({ operation }) => operation !== "same")
    .map(({ operation, name, type, changes }) => {
      const properties = changes.map(({ property }) => property).join(", ");
      const what = `${signs[operation]} ${name}  ${type.split(":").at(-1) ?? ""}  ${operation}`;
      return properties === "" ? what : `${what}  [${properties}]`;
    });
}

const signs = {
  same: " ",
  create: "+",
  update: "~",
  replace: "+-",
  "delete-replaced": "--",
  delete: "-",
  retain: "[retain]",
} as const satisfies Record<Operation, string>;
