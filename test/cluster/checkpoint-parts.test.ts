import { mkdir, mkdtemp, readFile, rm, stat, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { Sandbox } from "../../src/api/kinds/sandbox.ts";
import type { Backend } from "../../src/backends/backend.ts";
import { findCondition } from "../../src/kube/conditions.ts";
import { directoryStore } from "../../src/store/directory/store.ts";
import { FileCopyBackend } from "../contract/backends/file-copy-backend.ts";
import { openCluster, type Cluster } from "./controllers-cluster.ts";
import { StandInNode } from "./controllers-stand-in-node.ts";

const apiVersion = "agents.kruise.io/v1alpha1";
const template = { spec: { containers: [{ name: "main", image: "counter" }] } };
const volumeClaimTemplates = [
  {
    metadata: { name: "data" },
    spec: { accessModes: ["ReadWriteOnce"], resources: { requests: { storage: "1Gi" } } },
  },
];

/**
 * The real controllers with two backends: `cell`, over stand-in cells and a real store, for memory and files; and one that
 * copies a directory, for the volumes.
 */
describe("a checkpoint of two parts", () => {
  let root = "";
  let copies: FileCopyBackend;
  const backends: Backend[] = [];
  const node = new StandInNode();
  let cluster: Cluster;

  beforeAll(async () => {
    root = await mkdtemp(join(tmpdir(), "ramet-"));
    copies = new FileCopyBackend({ root, contents: ["volumes"] });
    backends.push(copies);
    cluster = await openCluster({ startNode: node.start, backends });
    await cluster.namespace("t");
  });
  afterAll(async () => {
    await cluster.close();
    await rm(root, { recursive: true, force: true });
  });

  const file = ({ metadata }: Sandbox): string => join(copies.directoryOf(metadata.uid), "text");
  const settled = ({ status }: Sandbox): boolean => status?.phase === "Running" || status?.phase === "Failed";
  const create = (kind: string, name: string, spec: object, annotations?: Record<string, string>) =>
    cluster.create({
      apiVersion,
      kind,
      metadata: { name, namespace: "t", ...(annotations && { annotations }) },
      spec,
    });
  async function capture(name: string): Promise<string> {
    await create("Checkpoint", name, { podName: "a", persistentContents: ["memory", "filesystem", "volumes"] });
    const { status } = await cluster.checkpoint(`t/${name}`, ({ status: now }) => now?.completionTime !== undefined);
    expect(status).toMatchObject({ phase: "Succeeded" });
    return status?.checkpointId ?? "";
  }
  const copyOf = (id: string): string => join(root, "checkpoints/t", id);
  const exists = (path: string): Promise<boolean> =>
    stat(path).then(
      () => true,
      () => false,
    );

  it("is recorded part by part", async () => {
    await create("Sandbox", "a", { template, volumeClaimTemplates });
    const source = await cluster.sandbox("t/a", settled);
    await mkdir(copies.directoryOf(source.metadata.uid), { recursive: true });
    await writeFile(file(source), "one");
    await capture("first");
    const { status } = await cluster.checkpoint("t/first", () => true);
    const { parts = [], ...summary } = status?.ramet ?? {};
    expect(parts).toMatchObject([
      { backend: "file-copy", contents: ["volumes"], sizeBytes: 3, consistency: "crash" },
      { backend: "cell", contents: ["memory", "filesystem"], handle: summary.manifestDigest },
    ]);
    expect(summary).toMatchObject({ backend: "cell", contents: ["memory", "filesystem"] });
    expect(summary.sizeBytes).toBe(3 + (parts[1]?.sizeBytes ?? 0));
  });

  it("is cloned and restored in place part by part", async () => {
    const source = await cluster.sandbox("t/a", settled);
    await writeFile(file(source), "two");
    const { status } = await cluster.checkpoint("t/first", () => true);
    const id = status?.checkpointId ?? "";

    await create("Sandbox", "b", { template, volumeClaimTemplates }, { "ramet.dev/restore-from": id });
    const clone = await cluster.sandbox("t/b", settled);
    expect(clone.status).toMatchObject({ phase: "Running", ramet: { restoredFrom: id, generation: 1 } });
    expect(await readFile(file(clone), "utf8")).toBe("one");
    expect(node.cells.get("t/b")?.restored).toBe(id);
    expect(await readFile(file(source), "utf8")).toBe("two");

    const metadata = { annotations: { "ramet.dev/rollback-to": id } };
    await cluster.seen.sandboxes.resource.mergePatch(source.metadata, { metadata });
    await cluster.sandbox("t/a", (now) => findCondition(now.status?.conditions, "RolledBack")?.status === "True");
    expect(await readFile(file(source), "utf8")).toBe("one");
    expect(node.cells.get("t/a")?.restored).toBe(id);
  });

  it("is removed from every backend, and leaves its clones alone", async () => {
    const { status } = await cluster.checkpoint("t/first", () => true);
    const id = status?.checkpointId ?? "";
    const store = directoryStore({ root: cluster.storePath });
    const places = () => Promise.all([exists(copyOf(id)), store.has({ namespace: "t", checkpointId: id })]);
    expect(await places()).toEqual([true, true]);
    await cluster.seen.checkpoints.resource.delete({ namespace: "t", name: "first" });
    await cluster.untilDeleted("checkpoints", "t/first");
    expect(await places()).toEqual([false, false]);
    const clone = await cluster.sandbox("t/b", settled);
    expect(await readFile(file(clone), "utf8")).toBe("one");
  });

  it("names a missing backend before a Pod is created", async () => {
    const id = await capture("second");
    backends.length = 0;
    await cluster.restartControllers();
    await create("Sandbox", "c", { template, volumeClaimTemplates }, { "ramet.dev/restore-from": id });
    const { status } = await cluster.sandbox("t/c", settled);
    expect(status).toMatchObject({ phase: "Failed" });
    expect(status?.message).toContain("no backend file-copy is installed here");
    expect(status?.message).toContain("[BackendMissing]");
    expect(await cluster.seen.pods.resource.find({ namespace: "t", name: "c" })).toBeUndefined();
  });
});
