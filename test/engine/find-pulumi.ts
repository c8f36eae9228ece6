import { constants } from "node:fs";
import { access, readdir } from "node:fs/promises";
import { homedir } from "node:os";
import { delimiter, join } from "node:path";
import { PulumiCommand } from "@pulumi/pulumi/automation/index.js";

/** Finds a `pulumi` on the PATH that is compatible with the installed SDK. */
export function findPulumi(): Promise<PulumiCommand | undefined> {
  return PulumiCommand.get().catch(() => undefined);
}

/** Lists the commands missing from the PATH that are needed to run programs without downloads. */
export async function missingPrograms(): Promise<string[]> {
  const pulumi = (await findPulumi()) === undefined ? ["pulumi"] : [];
  // `pulumi` starts these for Node programs, dynamic resources and Kubernetes objects.
  const started = ["pulumi-language-nodejs", "pulumi-resource-pulumi-nodejs", kubernetesPlugin];
  const found = await Promise.all(started.map(isOnPath));
  return [...pulumi, ...started.filter((_, index) => found[index] === false)];
}

/** Whether the Kubernetes plugin is on the PATH or in the directory of downloaded plugins. */
export async function hasKubernetesPlugin(): Promise<boolean> {
  if (await isOnPath(kubernetesPlugin)) return true;
  const home = process.env["PULUMI_HOME"] ?? join(homedir(), ".pulumi");
  const downloaded = await readdir(join(home, "plugins")).catch((): string[] => []);
  return downloaded.some((name) => /^resource-kubernetes-v[^/]*\d$/.test(name));
}

export const kubernetesPlugin = "pulumi-resource-kubernetes";

export async function isOnPath(command: string): Promise<boolean> {
  const directories = (process.env["PATH"] ?? "").split(delimiter);
  const checks = directories.map((directory) =>
    access(join(directory, command), constants.X_OK).then(
      () => true,
      () => false,
    ),
  );
  return (await Promise.all(checks)).includes(true);
}
