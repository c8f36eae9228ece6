import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { renderCrds } from "../../src/api/kinds/crd.ts";
import { sandboxKind } from "../../src/api/kinds/sandbox.ts";
import { RametError } from "../../src/base/errors.ts";
import { type Clock, systemClock } from "../../src/base/clock.ts";
import { runProgram } from "../../src/cli/program.ts";
import { KubeClient } from "../../src/kube/kube-client.ts";
import type { KubeObject } from "../../src/kube/object.ts";
import { coreResources, refOf, type ResourceRef } from "../../src/kube/resource-ref.ts";
import { snapshotResources } from "../../src/kube/volumes/snapshots.ts";
import { packageRoot } from "../../src/local/tools/tool.ts";
import { type TestControlPlane, startControlPlane } from "../setup/control-plane.ts";
import { memoryIo } from "../setup/memory-io.ts";
import { allSnapshotCrds } from "../setup/snapshot-crds.ts";
import { makeNamespace } from "../setup/namespace.ts";
import { writeKubeconfig } from "../setup/service-accounts.ts";

/**
 * A real API server with the real CRDs of external-snapshotter. No controller runs: tests write what the snapshot-controller, the
 * sidecar, the provisioner and Kubernetes' own controllers would have written, so this does not prove that those write it.
 */
export class VolumeWorld {
  readonly plane: TestControlPlane;
  readonly client: KubeClient;
  readonly #home: string;
  #namespaces = 0;

  private constructor(plane: TestControlPlane, client: KubeClient, home: string) {
    this.plane = plane;
    this.client = client;
    this.#home = home;
  }

  static async start(): Promise<VolumeWorld> {
    const [plane, home] = await Promise.all([startControlPlane(), mkdtemp(join(tmpdir(), "ramet-volume-world-"))]);
    const world = new VolumeWorld(plane, new KubeClient(plane.connection), home);
    await world.#installCrds();
    return world;
  }

  async stop(): Promise<void> {
    await this.client.close();
    await this.plane.stop();
    await rm(this.#home, { recursive: true, force: true });
  }

  async #installCrds(): Promise<void> {
    const crds = [...(await allSnapshotCrds(packageRoot())), ...renderCrds()];
    await Promise.all(crds.map((crd) => this.client.resource(coreResources.crds).create(crd)));
    const served = [
      ...Object.values(snapshotResources),
      refOf(sandboxKind),
      {
        ...snapshotResources.snapshots,
        group: "groupsnapshot.storage.k8s.io",
        version: "v1beta2",
        plural: "volumegroupsnapshots",
      },
    ];
    for (const ref of served) await this.#untilServed(ref);
  }

  /** The API server serves a new kind a moment after it has its CRD. */
  async #untilServed(ref: ResourceRef): Promise<void> {
    for (;;) {
      try {
        await this.client.resource(ref).list();
        return;
      } catch (error) {
        if (RametError.from(error).code !== "NotFound") throw error;
      }
    }
  }

  /** Changes the spec of a CRD as another version of external-snapshotter does. */
  async changeCrd(name: string, change: (crd: CrdObject) => object): Promise<void> {
    const crds = this.client.resource(coreResources.crds, (value) => value as CrdObject);
    const crd = await crds.get({ name });
    await crds.mergePatch({ name }, { spec: change(crd) });
  }

  /** @returns its path */
  async file(text: string): Promise<string> {
    const path = join(this.#home, crypto.randomUUID());
    await writeFile(path, text);
    return path;
  }

  async namespace(): Promise<string> {
    this.#namespaces += 1;
    const name = `t${this.#namespaces}`;
    await makeNamespace(this.client, name);
    return name;
  }

  /** Creates an object, and writes its status as its controller would. */
  async create(ref: ResourceRef, { status, ...object }: Played): Promise<KubeObject> {
    const apiVersion = ref.group === "" ? ref.version : `${ref.group}/${ref.version}`;
    const resource = this.client.resource(ref);
    const created = await resource.create({ apiVersion, kind: ref.kind, ...object });
    if (status === undefined) return created;
    return resource.mergePatch(created.metadata, { status }, { subresource: "status" });
  }

  /** Writes an Event as the recorders of the snapshot-controller, the sidecar and the provisioner do: of the older kind. */
  async event(
    about: KubeObject,
    { reason, message, type = "Warning", count = 1, seconds = 0 }: PlayedEvent,
  ): Promise<void> {
    const { name, uid } = about.metadata;
    const namespace = about.metadata.namespace ?? "default";
    const last = new Date();
    await this.client.resource({ ...coreResources.events, group: "" }).create({
      apiVersion: "v1",
      kind: "Event",
      metadata: { name: `${name}.${process.hrtime.bigint().toString(16).padStart(16, "0")}`, namespace },
      involvedObject: {
        apiVersion: about.apiVersion,
        kind: about.kind,
        name,
        uid,
        ...(about.metadata.namespace && { namespace }),
      },
      reason,
      message,
      type,
      count,
      firstTimestamp: withoutFraction(new Date(last.getTime() - seconds * 1000)),
      lastTimestamp: withoutFraction(last),
      source: { component: "test" },
    });
  }

  /** Runs the command line in this process. @param later by how many seconds its clock is ahead */
  async ramet(args: readonly string[], { later = 0, kubeconfig = this.plane.kubeconfigPath }: Run = {}) {
    const clock: Clock = { ...systemClock, now: () => new Date(Date.now() + later * 1000) };
    const io = memoryIo({ environment: { HOME: this.#home, KUBECONFIG: kubeconfig }, clock });
    const exitCode = await runProgram(io, [...args]);
    return { exitCode, stdout: io.written("stdout"), stderr: io.written("stderr") };
  }

  /** A kubeconfig of a user with these rights in one namespace. */
  async userOf(namespace: string, rules: readonly object[]): Promise<string> {
    const group = "rbac.authorization.k8s.io";
    const ref = (plural: string, kind: string): ResourceRef => ({
      group,
      version: "v1",
      plural,
      kind,
      namespaced: true,
    });
    const metadata = { name: "user", namespace };
    await this.create(ref("roles", "Role"), { metadata, rules });
    const subjects = [{ kind: "User", apiGroup: group, name: "user" }];
    const roleRef = { apiGroup: group, kind: "Role", name: "user" };
    await this.create(ref("rolebindings", "RoleBinding"), { metadata, subjects, roleRef });
    const path = join(this.#home, `${namespace}.kubeconfig`);
    const { adminCert, adminKey } = this.plane;
    const base64 = (pem: string) => Buffer.from(pem).toString("base64");
    const user = { "client-certificate-data": base64(adminCert), "client-key-data": base64(adminKey), as: "user" };
    await writeKubeconfig(path, { like: this.plane.kubeconfigPath, user });
    return path;
  }
}

interface CrdObject extends KubeObject {
  spec: { versions: { name: string; storage: boolean }[] };
}

interface Played {
  metadata: {
    name: string;
    namespace?: string;
    annotations?: Record<string, string>;
    labels?: Record<string, string>;
    finalizers?: string[];
  };
  status?: object;
  [field: string]: unknown;
}

interface PlayedEvent {
  reason: string;
  message: string;
  type?: "Normal" | "Warning";
  count?: number;
  /** Between the first and the last one. */
  seconds?: number;
}

interface Run {
  later?: number;
  kubeconfig?: string;
}

function withoutFraction(date: Date): string {
  return `${date.toISOString().slice(0, 19)}Z`;
}
