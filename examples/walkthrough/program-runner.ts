/** What runs a Pulumi program: the `pulumi` command, or what stands in for it. */
export interface ProgramRunner {
  /** What a person should know of it. */
  description: string;
  preview(): Promise<ProgramRun>;
  up(): Promise<ProgramRun>;
  destroy(): Promise<void>;
}

export interface ProgramRun {
  /** What was said, and what is done with each resource. */
  text: string;
  /** What the program exports. */
  outputs: Record<string, unknown>;
}

export interface RunnerOptions {
  /** The program's folder, in which its packages are installed. */
  folder: string;
  /** Where the state goes. */
  stateFolder: string;
  kubeconfigPath: string;
  /** Is told each line as it comes. */
  onLine: (line: string) => void;
  signal: AbortSignal;
}
