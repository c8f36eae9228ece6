import type { SnapshotStackArgs } from "../../components/snapshot-stack/args.ts";
import type { RunResult } from "../engine/engine.ts";
import { findStack } from "../../provider/handlers/snapshot-stack/find-stack.ts";
import type { ObservedCluster } from "../../provider/handlers/snapshot-stack/observed-cluster.ts";
import { KubeClient } from "../../src/kube/kube-client.ts";
import type { KubeManifest } from "../../src/kube/object.ts";
import type { ResourceRef } from "../../src/kube/resource-ref.ts";
import { startControlPlane, type TestControlPlane } from "../setup/control-plane.ts";
import { openProgram, type ProgramWorld } from "./program-world.ts";

/**
 * Runs a program with one SnapshotStack on a real API server that serves Deployments, without controllers, drivers or a cloud. Tests
 * create the objects that make the cluster look like a cloud's cluster.
 */
export class StackWorld {
  readonly plane: TestControlPlane;
  readonly client: KubeClient;
  readonly #program: ProgramWorld;

  private constructor(plane: TestControlPlane, client: KubeClient, program: ProgramWorld) {
    this.plane = plane;
    this.client = client;
    this.#program = program;
  }

  static async open(): Promise<StackWorld> {
    const plane = await startControlPlane({ apis: "all" });
    const { kubeconfigPath: path } = plane;
    const client = new KubeClient(plane.connection);
    return new StackWorld(plane, client, await openProgram("test/program/programs/stack", { kubeconfig: path }));
  }

  async close(): Promise<void> {
    await this.client.close();
    await this.#program.remove();
    await this.plane.stop();
  }

  preview(args: SnapshotStackArgs): Promise<RunResult> {
    return this.#with(args).preview();
  }

  up(args: SnapshotStackArgs): Promise<RunResult> {
    return this.#with(args).up();
  }

  destroy(): Promise<RunResult> {
    return this.#program.engine.destroy();
  }

  /** A preview that does not reach the cluster. */
  async previewUnreachable(args: SnapshotStackArgs): Promise<RunResult> {
    const kubeconfig = await this.#program.unreachable(this.plane.kubeconfigPath);
    return this.#with(args).with({ kubeconfig }).preview();
  }

  /** Observes the cluster without a program. */
  observe(): Promise<ObservedCluster> {
    const environment = { KUBECONFIG: this.plane.kubeconfigPath };
    return findStack({ configuration: { get: () => undefined }, environment }, "kube-system");
  }

  /** Applies an object as another tool. */
  async apply(ref: ResourceRef, manifest: KubeManifest, fieldManager = "kubectl"): Promise<void> {
    await this.client.resource(ref).apply(manifest, { fieldManager, force: true });
  }

  async driver(name: string): Promise<void> {
    const spec = { attachRequired: false };
    await this.apply(refs.drivers, { apiVersion: "storage.k8s.io/v1", kind: "CSIDriver", metadata: { name }, spec });
  }

  /** Sets annotations that mark an object as managed by another tool, or removes them (null). */
  async mark(ref: ResourceRef, at: { namespace?: string; name: string }, annotations: Record<string, string | null>) {
    await this.client.resource(ref).mergePatch(at, { metadata: { annotations } });
  }

  #with(args: SnapshotStackArgs) {
    return this.#program.engine.with({ configuration: { "program:stack": JSON.stringify(args) } });
  }
}

const cluster = (group: string, plural: string, kind: string): ResourceRef => ({
  group,
  version: "v1",
  plural,
  kind,
  namespaced: false,
});
export const refs = {
  drivers: cluster("storage.k8s.io", "csidrivers", "CSIDriver"),
  classes: cluster("snapshot.storage.k8s.io", "volumesnapshotclasses", "VolumeSnapshotClass"),
  webhooks: cluster(
    "admissionregistration.k8s.io",
    "validatingwebhookconfigurations",
    "ValidatingWebhookConfiguration",
  ),
  deployments: { ...cluster("apps", "deployments", "Deployment"), namespaced: true },
  snapshots: { ...cluster("snapshot.storage.k8s.io", "volumesnapshots", "VolumeSnapshot"), namespaced: true },
} satisfies Record<string, ResourceRef>;
