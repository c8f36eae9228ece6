import { vi } from "vitest";
import {
  namedSnapshotKind,
  type NamedSnapshot,
  type NamedSnapshotManifest,
} from "../../src/api/kinds/named-snapshot.ts";
import { sandboxTemplateKind } from "../../src/api/kinds/sandbox-template.ts";
import { cellRuntime } from "../../src/backends/cell-runtime.ts";
import { sandboxRef } from "../../src/backends/runtime.ts";
import { CellClient } from "../../src/cell/client/cell-client.ts";
import { clusterCredentials } from "../../src/backends/cluster-keys.ts";
import { logName } from "../../src/controllers/named-snapshot/names.ts";
import { findCondition } from "../../src/kube/conditions.ts";
import { coreResources } from "../../src/kube/resource-ref.ts";
import { openCluster, type Cluster, type ClusterOptions } from "./controllers-cluster.ts";
import { realNode } from "./controllers-real-node.ts";

export interface SnapshotWorld {
  cluster: Cluster;
  /** Creates the named snapshot, or changes its spec. */
  apply: (name: string, spec: NamedSnapshotManifest["spec"]) => Promise<void>;
  annotate: (name: string, annotations: Record<string, string | null>) => Promise<void>;
  /** Resolves when the condition holds. Rejects after two minutes, with the last state of the snapshot. */
  until: (name: string, holds: (snapshot: NamedSnapshot) => boolean) => Promise<NamedSnapshot>;
  /** Resolves when the controller has observed the current spec and builds nothing. */
  settled: (name: string) => Promise<NamedSnapshot>;
  noBuilders: (name: string) => Promise<void>;
  /** Creates a Sandbox from a checkpoint, and resolves when it is running. */
  clone: (name: string, from: string) => Promise<void>;
  /** Resolves to the sandbox's response on port 8000. */
  get: (sandbox: string) => Promise<string>;
  /** Reads a file in a sandbox. */
  read: (sandbox: string, path: string) => Promise<string>;
  untilFile: (sandbox: string, path: string) => Promise<void>;
  write: (sandbox: string, path: string, content: string) => Promise<void>;
  /** Ends a running `untilReleased` command in this builder. */
  release: (builder: string) => Promise<void>;
  /** The sandbox in which the snapshot is being built. */
  builderOf: (name: string) => Promise<string>;
  /** The output of the steps of the latest build, by key. */
  log: (name: string) => Promise<Record<string, string>>;
  /** The names of all builders so far. */
  buildersSeen: () => string[];
  /** Creates or changes a SandboxTemplate with a memory limit, and optionally an emptyDir. */
  template: (name: string, memory: string, volume?: { mountPath: string; sizeLimit: string }) => Promise<void>;
  secret: (name: string, values: Record<string, string>) => Promise<void>;
  close: () => Promise<void>;
}

/** A command of a step that runs until the test releases it. Each release ends one run. */
export const untilReleased = "until test -e /tmp/go; do sleep 0.05; done; rm /tmp/go";

export interface SnapshotWorldOptions extends Pick<ClusterOptions, "egress" | "log"> {
  /** Environment variables of each cell. */
  environment?: Record<string, string>;
}

/** Opens a real cluster with real cells, and a SandboxTemplate `base` in the namespace `t`. */
export async function openSnapshotWorld({
  environment,
  ...options
}: SnapshotWorldOptions = {}): Promise<SnapshotWorld> {
  const cluster = await openCluster({ startNode: realNode({ ...(environment && { environment }) }), ...options });
  await cluster.namespace("t");
  await cluster.create({
    apiVersion: "agents.kruise.io/v1alpha1",
    kind: "SandboxTemplate",
    metadata: { name: "base", namespace: "t" },
    spec: { template: baseTemplate },
  });
  const { resource, store } = cluster.seen.snapshots;
  const builders = new Set<string>();
  cluster.seen.sandboxes.onChange(({ object: { metadata } }) => {
    if (metadata.labels?.["ramet.dev/purpose"] === "build") builders.add(metadata.name);
  });
  const credentials = await clusterCredentials(cluster.client);
  const cells = new CellClient(credentials.key);
  const until: SnapshotWorld["until"] = (name, holds) =>
    new Promise((resolve, reject) => {
      const check = (): void => {
        const found = store.get(`t/${name}`);
        if (found === undefined || !holds(found)) return;
        clearTimeout(timer);
        stop();
        resolve(found);
      };
      const timer = setTimeout(() => {
        stop();
        reject(
          new Error(`${name} did not reach the expected state: ${JSON.stringify(store.get(`t/${name}`), null, 1)}`),
        );
      }, 120_000);
      const stop = store.subscribe(check);
      check();
    });
  const guestOf = async (sandbox: string) => {
    const ready = await cluster.sandbox(`t/${sandbox}`, ({ status: now }) => now?.phase === "Running");
    return cellRuntime({ cells, credentials, findPod: () => Promise.resolve(undefined) }).guest(sandboxRef(ready));
  };
  const read = async (sandbox: string, path: string): Promise<string> => {
    const guest = await guestOf(sandbox);
    const chunks: Buffer[] = [];
    for await (const chunk of (await guest.readFile(path)) as AsyncIterable<Buffer>) chunks.push(chunk);
    return Buffer.concat(chunks).toString();
  };
  const write: SnapshotWorld["write"] = async (sandbox, path, content) =>
    (await guestOf(sandbox)).writeFile(path, Buffer.from(content));
  return {
    cluster,
    until,
    apply: async (name, spec) => {
      const manifest = {
        apiVersion: namedSnapshotKind.apiVersion,
        kind: "NamedSnapshot",
        metadata: { name, namespace: "t" },
        spec,
      };
      await resource.apply(manifest, { fieldManager: "test", force: true });
    },
    annotate: async (name, annotations) => {
      await resource.mergePatch({ namespace: "t", name }, { metadata: { annotations } });
    },
    settled: async (name) => {
      const { metadata } = await resource.get({ namespace: "t", name });
      return until(
        name,
        ({ status }) =>
          status?.observedGeneration === metadata.generation &&
          findCondition(status?.conditions, "Building")?.status === "False",
      );
    },
    noBuilders: async (name) => {
      const builders = cluster.seen.sandboxes.store
        .list()
        .filter((one) => one.metadata.name.startsWith(`${name}-build-`));
      for (const { metadata } of builders) await cluster.untilDeleted("sandboxes", `t/${metadata.name}`);
    },
    clone: async (name, from) => {
      const metadata = { name, namespace: "t", annotations: { "ramet.dev/restore-from": from } };
      await cluster.create({ apiVersion: "agents.kruise.io/v1alpha1", kind: "Sandbox", metadata, spec: {} });
      const { status } = await cluster.sandbox(`t/${name}`, ({ status: now }) => ended.has(now?.phase ?? ""));
      if (status?.phase !== "Running") throw new Error(`${name}: ${status?.message ?? "did not start"}`);
    },
    get: async (sandbox) => {
      const { status } = await cluster.sandbox(`t/${sandbox}`, ({ status: now }) => now?.phase === "Running");
      for (;;) {
        const response = await fetch(`http://${status?.sandboxIp ?? ""}:8000/`).catch(() => undefined);
        if (response?.ok === true) return response.text();
        await new Promise((resolve) => setTimeout(resolve, 20));
      }
    },
    read,
    untilFile: async (sandbox, path) => {
      for (;;) {
        const found = await read(sandbox, path).catch(() => undefined);
        if (found !== undefined) return;
        await new Promise((resolve) => setTimeout(resolve, 20));
      }
    },
    write,
    release: (builder) => write(builder, "/tmp/go", ""),
    builderOf: async (name) => {
      const { status } = await until(name, ({ status: now }) => now?.build?.builderUid !== undefined);
      const builder = () => cluster.seen.sandboxes.store.byUid(status?.build?.builderUid ?? "");
      // The snapshot and its builder have separate watches.
      return (await vi.waitUntil(builder, { timeout: 20_000 })).metadata.name;
    },
    log: async (name) => {
      const digest = store.get(`t/${name}`)?.status?.build?.digest ?? "";
      const at = { namespace: "t", name: logName(name, digest) };
      return (
        ((await cluster.client.resource(coreResources.configMaps).get(at)) as { data?: Record<string, string> }).data ??
        {}
      );
    },
    buildersSeen: () => [...builders],
    template: async (name, memory, volume) => {
      const template = structuredClone(baseTemplate) as {
        spec: { volumes?: object[]; containers: Record<string, unknown>[] };
      };
      const [main] = template.spec.containers;
      main!["resources"] = { limits: { memory } };
      if (volume !== undefined) {
        template.spec.volumes = [{ name: "volume", emptyDir: { sizeLimit: volume.sizeLimit } }];
        main!["volumeMounts"] = [{ name: "volume", mountPath: volume.mountPath }];
      }
      const { apiVersion, kind } = sandboxTemplateKind;
      const manifest = { apiVersion, kind, metadata: { name, namespace: "t" }, spec: { template } };
      await cluster.seen.templates.resource.apply(manifest, { fieldManager: "test", force: true });
    },
    secret: async (name, values) => {
      const metadata = { name, namespace: "t" };
      await cluster.client
        .resource(coreResources.secrets)
        .create({ apiVersion: "v1", kind: "Secret", metadata, stringData: values });
    },
    close: () => {
      cells.close();
      return cluster.close();
    },
  };
}

const ended = new Set(["Running", "Failed", "Succeeded"]);
export const baseTemplate = {
  spec: {
    terminationGracePeriodSeconds: 1,
    containers: [{ name: "main", image: "python", command: ["sleep", "infinity"], ports: [{ containerPort: 8000 }] }],
  },
};
