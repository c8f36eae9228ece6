import { mkdir } from "node:fs/promises";
import { join } from "node:path";
import { LocalWorkspace, PulumiCommand } from "@pulumi/pulumi/automation/index.js";
import type { ProgramRunner, RunnerOptions } from "./program-runner.ts";

/** The `pulumi` that is on the PATH, if there is one that this package's SDK can speak to. */
export function findPulumi(): Promise<PulumiCommand | undefined> {
  return PulumiCommand.get().catch(() => undefined);
}

/** Runs a program with `pulumi`, its state in a folder. It fetches the Kubernetes plugin where that is missing. */
export async function pulumiRunner(pulumiCommand: PulumiCommand, options: RunnerOptions): Promise<ProgramRunner> {
  const { folder, stateFolder, kubeconfigPath, onLine, signal } = options;
  const backend = join(stateFolder, "state");
  await mkdir(backend, { recursive: true });
  const stack = await LocalWorkspace.createStack(
    { stackName: "demo", workDir: folder },
    {
      pulumiCommand,
      envVars: {
        KUBECONFIG: kubeconfigPath,
        PULUMI_BACKEND_URL: `file://${backend}`,
        PULUMI_CONFIG_PASSPHRASE: "demo",
        PULUMI_SKIP_UPDATE_CHECK: "true",
      },
    },
  );
  const onOutput = (text: string): void => {
    for (const line of text.split("\n")) if (line.trim() !== "") onLine(line.trimEnd());
  };
  const said = { onOutput, signal, color: "never" } as const;
  return {
    description: `pulumi ${String(pulumiCommand.version)} runs the program`,
    preview: async () => ({ text: (await stack.preview(said)).stdout, outputs: {} }),
    up: async () => {
      const { stdout, outputs } = await stack.up(said);
      const plain = Object.entries(outputs).map(([name, { value }]) => [name, value as unknown] as const);
      return { text: stdout, outputs: Object.fromEntries(plain) };
    },
    destroy: async () => {
      await stack.destroy(said);
    },
  };
}
