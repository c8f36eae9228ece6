import { execFile } from "node:child_process";
import { copyFile, mkdtemp, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";
import { inject } from "vitest";
import { runProgram } from "../../src/local/tools/run-program.ts";
import { builtPrograms } from "../setup/built-package.ts";
import type { GivenCluster } from "./start-cluster.ts";

/** Access to the cluster as a user: with `kubectl` and `ramet`, which resolve to their output. */
export interface World extends Pick<GivenCluster, "kubeconfig" | "s3" | "registries"> {
  /** The path of the program. */
  kubectlPath: string;
  /** A directory for this test only. */
  directory: string;
  kubectl: (...args: string[]) => Promise<string>;
  apply: (manifest: string) => Promise<void>;
  ramet: (...args: string[]) => Promise<string>;
  inSandbox: (name: string, script: string) => Promise<string>;
  /** The number of selected Pods that are Ready. */
  readyPods: (...selector: string[]) => Promise<number>;
  /** The identity of the leading controller; empty without one. */
  leader: () => Promise<string>;
}

const component = (name: string) => [
  "-n",
  "ramet-system",
  "-l",
  `app.kubernetes.io/name=ramet,app.kubernetes.io/component=${name}`,
];
export const controllers = component("controller");
export const gateways = component("gateway");
export const clientApis = component("client-api");

/** @param namespace the one that commands without a namespace use */
export async function openWorld(namespace = "default"): Promise<World> {
  const { kubeconfig: shared, s3, registries, dir, kubectl: program } = inject("cluster");
  const directory = await mkdtemp(join(dir, "test-"));
  const kubeconfig = join(directory, "kubeconfig");
  await copyFile(shared, kubeconfig);
  const kubectl = async (...args: string[]): Promise<string> =>
    (await runProgram(program, ["--kubeconfig", kubeconfig, ...args])).stdout;
  const ramet = async (...args: string[]): Promise<string> => {
    const [node, ...own] = builtPrograms.ramet;
    const env = { ...process.env, KUBECONFIG: kubeconfig };
    return (await promisify(execFile)(node, [...own, ...args], { env })).stdout.trim();
  };
  await kubectl("config", "set-context", "--current", `--namespace=${namespace}`);
  return {
    kubeconfig,
    s3,
    registries,
    kubectlPath: program,
    directory,
    kubectl,
    ramet,
    apply: async (manifest) => {
      const path = join(directory, "applied.yaml");
      await writeFile(path, manifest);
      await kubectl("apply", "-f", path);
    },
    inSandbox: (name, script) => ramet("sandbox", "exec", "--direct", name, "--", "sh", "-c", script),
    readyPods: async (...selector) => {
      const path = '{range .items[*].status.conditions[?(@.type=="Ready")]}{.status}{"\\n"}{end}';
      const printed = await kubectl("get", "pods", ...selector, "-o", `jsonpath=${path}`);
      return printed.split("\n").filter((line) => line === "True").length;
    },
    leader: () =>
      kubectl("get", "lease", "-n", "ramet-system", "ramet-controllers", "-o", "jsonpath={.spec.holderIdentity}"),
  };
}

/** Creates the Secret with the controllers' credentials for the store. */
export async function makeStoreSecret({ kubectl, s3 }: World): Promise<void> {
  const variables = Object.entries({ ...s3.environment, AWS_REGION: "us-east-1" });
  const literals = variables.map(([name, value]) => `--from-literal=${name}=${value}`);
  const missing = "--ignore-not-found";
  await kubectl("delete", "secret", "s3", "-n", "ramet-system", missing);
  await kubectl("create", "secret", "generic", "s3", "-n", "ramet-system", ...literals);
}
