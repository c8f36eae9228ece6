import { execFile } from "node:child_process";
import { expect } from "vitest";
import type { KubeClient } from "../../src/kube/kube-client.ts";
import { coreResources } from "../../src/kube/resource-ref.ts";
import { builtPrograms } from "../setup/built-package.ts";
import { type Outcome, RametUser } from "../setup/ramet-user.ts";
import { clientOf } from "./client.ts";
import { isManaged, removeNamespace } from "./remains.ts";
import type { VolumesSetting } from "./setting.ts";

/** A namespace of its own in a cluster that exists, used with a kubeconfig only. */
export class ExistingCluster extends RametUser {
  readonly client: KubeClient;
  readonly setting: VolumesSetting;
  #isManaged = true;

  private constructor(client: KubeClient, setting: VolumesSetting) {
    super();
    this.client = client;
    this.setting = setting;
  }

  get namespace(): string {
    return this.setting.namespace;
  }

  override get timeoutSeconds(): number {
    return this.setting.timeoutSeconds;
  }

  /** Creates the namespace. */
  static async open(setting: VolumesSetting): Promise<ExistingCluster> {
    const cluster = new ExistingCluster(await clientOf(setting), setting);
    const name = setting.namespace;
    // Cells need more than the levels `baseline` and `restricted` allow.
    const labels = { "pod-security.kubernetes.io/enforce": "privileged" };
    const namespace = { apiVersion: "v1", kind: "Namespace", metadata: { name, labels } };
    await cluster.client.resource(coreResources.namespaces).create(namespace);
    // Pods cannot be created before.
    cluster.#isManaged = await isManaged(cluster);
    return cluster;
  }

  get isManaged(): boolean {
    return this.#isManaged;
  }

  /** Removes the namespace and what the cluster has for it, also after a failure. */
  async close(): Promise<void> {
    const left = await removeNamespace(this);
    if (!this.isManaged)
      console.log(
        `The namespace ${this.namespace} is empty and stays, because no controller of this cluster deletes it`,
      );
    await this.client.close();
    expect(left).toEqual([]);
  }

  run(...args: string[]): Promise<Outcome> {
    const { kubeconfig, context, namespace } = this.setting;
    const [program, main] = builtPrograms.ramet;
    const own = ["--namespace", namespace, ...(context === undefined ? [] : ["--context", context])];
    const separator = args.includes("--") ? args.indexOf("--") : args.length;
    const all = [main, ...args.slice(0, separator), ...own, ...args.slice(separator)];
    const env = { ...process.env, KUBECONFIG: kubeconfig };
    return new Promise((resolve) => {
      const child = execFile(program, all, { env, maxBuffer: 2 ** 26 }, (_error, stdout, stderr) => {
        resolve({ exitCode: child.exitCode, stdout, stderr });
      });
    });
  }

  /** Runs a script in a sandbox, which must succeed. @returns its output */
  async shell(sandbox: string, script: string): Promise<string> {
    const { stdout } = await this.ramet(
      "sandbox",
      "exec",
      ...this.setting.execOptions,
      sandbox,
      "--",
      "sh",
      "-c",
      script,
    );
    return stdout.trim();
  }
}
