import type { Operation, Step } from "./deployment.ts";
import type { Values } from "./values.ts";

export interface EngineOptions {
  /** The program's folder. */
  program: string;
  /** Where the state is kept. */
  stateDirectory: string;
  kubeconfig: string;
  project: string;
  stack: string;
  passphrase: string;
  configuration?: Record<string, string>;
  secretKeys?: string[];
  /** The directory of a policy pack that validates each resource. */
  policyPack?: string;
  /** As the option of `Pulumi.yaml`. @default false */
  typescript?: boolean;
  /** Ends what is under way, and with it all processes; what was begun in the cluster goes on there. */
  signal?: AbortSignal;
  /**
   * Hears of each line as it comes, and may kill the process for dynamic resources: for tests of what its death leaves
   * behind.
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

/** What runs a Pulumi program: the `pulumi` command, or what stands in for it. Each call reads the state anew. */
export interface Engine {
  /** What a person should know of it. */
  readonly description: string;
  readonly statePath: string;
  /** The same stack with other options. */
  with(options: Partial<EngineOptions>): Engine;
  preview(): Promise<RunResult>;
  up(): Promise<RunResult>;
  /** Brings the state to what the cluster has. */
  refresh(): Promise<RunResult>;
  /** Without the program. */
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

/** One line for each step that does something: sign, name, type, operation, and which inputs change. */
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
