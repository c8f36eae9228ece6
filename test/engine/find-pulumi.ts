import { constants } from "node:fs";
import { access, readdir } from "node:fs/promises";
import { homedir } from "node:os";
import { delimiter, join } from "node:path";
import { PulumiCommand } from "@pulumi/pulumi/automation/index.js";

/** The `pulumi` that is on the PATH, if there is one that this package's SDK can speak to. */
export function findPulumi(): Promise<PulumiCommand | undefined> {
  return PulumiCommand.get().catch(() => undefined);
}

/** Of what runs programs with nothing fetched, that which the PATH lacks. */
export async function missingPrograms(): Promise<string[]> {
  const pulumi = (await findPulumi()) === undefined ? ["pulumi"] : [];
  // What `pulumi` starts for a program of Node, for dynamic resources and for objects of Kubernetes.
  const started = ["pulumi-language-nodejs", "pulumi-resource-pulumi-nodejs", kubernetesPlugin];
  const found = await Promise.all(started.map(isOnPath));
  return [...pulumi, ...started.filter((_, index) => found[index] === false)];
}

/** Whether `pulumi` has its plugin for objects of Kubernetes: on the PATH, or where it puts what it has fetched itself. */
export async function hasKubernetesPlugin(): Promise<boolean> {
  if (await isOnPath(kubernetesPlugin)) return true;
  const home = process.env["PULUMI_HOME"] ?? join(homedir(), ".pulumi");
  const fetched = await readdir(join(home, "plugins")).catch((): string[] => []);
  return fetched.some((name) => /^resource-kubernetes-v[^/]*\d$/.test(name));
}

export const kubernetesPlugin = "pulumi-resource-kubernetes";

async function isOnPath(command: string): Promise<boolean> {
  const directories = (process.env["PATH"] ?? "").split(delimiter);
  const looks = directories.map((directory) =>
    access(join(directory, command), constants.X_OK).then(
      () => true,
      () => false,
    ),
  );
  return (await Promise.all(looks)).includes(true);
}
