import { execFileSync } from "node:child_process";
import { mkdirSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { Checkpoint, checkpointKind } from "../../src/api/kinds/checkpoint.ts";
import { isPodReady } from "../../src/api/schema/pod.ts";
import { sandboxKind } from "../../src/api/kinds/sandbox.ts";
import { coreResources, refOf } from "../../src/kube/resource-ref.ts";
import { PodDirectory } from "../../src/local/node/pod-directory.ts";
import type { NodePod } from "../../src/local/node/pod.ts";
import { podProcesses } from "../../src/local/node/launch-pod.ts";
import { TestCluster } from "./local-cluster.ts";

let cluster: TestCluster;
beforeAll(async () => {
  cluster = await TestCluster.create();
  // Stands in for the files of a second cluster of the same user.
  const other = join(dirname(cluster.directory.path), "other");
  mkdirSync(other, { recursive: true });
  writeFileSync(join(other, "kubeconfig"), "secret");
  await cluster.up();
}, 400_000);
afterAll(() => cluster.remove());

/** The paths below the directory of all clusters that a Pod's cell sees. The Pod's own directory is at /run/ramet. */
function visiblePaths(pod: NodePod): string[] {
  const record = new PodDirectory(cluster.directory.pods, pod.metadata.uid).readRecord();
  const name = record?.spare ?? record?.uid;
  const pids = podProcesses(cluster.directory.pods).flatMap((one) => (one.name === name ? [one.process.pid] : []));
  // The outer process is in the machine's mount namespace, all others are in the Pod's.
  const inner = pids.find((pid) => mountNamespace(pid) !== mountNamespace(process.pid));
  const all = dirname(cluster.directory.path);
  const printed = execFileSync(
    "nsenter",
    ["-t", String(inner), "-m", "--wdns=/", "find", all, "-ignore_readdir_race"],
    { encoding: "utf8" },
  );
  return printed
    .trim()
    .split("\n")
    .map((path) => path.slice(all.length + 1))
    .filter((path) => path !== "");
}

function mountNamespace(pid: number): string {
  return execFileSync("readlink", [`/proc/${pid}/ns/mnt`], { encoding: "utf8" });
}

/** Creates a sandbox and a checkpoint of it, and resolves to the sandbox's Pod. */
async function sandboxWithCheckpoint(namespace: string, name: string): Promise<NodePod> {
  const client = await cluster.client();
  const code = "import time\nwhile True: time.sleep(1)";
  const containers = [{ name: "main", image: "python", command: ["python3", "-c", code] }];
  await client.resource(refOf(sandboxKind)).create({
    apiVersion: "agents.kruise.io/v1alpha1",
    kind: "Sandbox",
    metadata: { namespace, name },
    spec: { template: { spec: { containers } } },
  });
  const pod = await cluster.untilPod(name, (one) => one !== undefined && isPodReady(one), namespace);
  await client.resource(refOf(checkpointKind)).create({
    apiVersion: "agents.kruise.io/v1alpha1",
    kind: "Checkpoint",
    metadata: { namespace, name: `${name}-state` },
    spec: { sandboxName: name },
  });
  const taken = await cluster.until(
    refOf(checkpointKind),
    { namespace, name: `${name}-state` },
    (value) => Checkpoint.parse(value),
    (one) => ["Succeeded", "Failed"].includes(one?.status?.phase ?? ""),
  );
  expect(taken?.status).toMatchObject({ phase: "Succeeded" });
  return pod!;
}

describe.skipIf(process.getuid?.() !== 0)("a cell on a local cluster", () => {
  it("sees the checkpoints and the layers of its own namespace, and no other file of any cluster", async () => {
    const client = await cluster.client();
    for (const name of ["team-a", "team-b"]) {
      await client
        .resource(coreResources.namespaces)
        .create({ apiVersion: "v1", kind: "Namespace", metadata: { name } });
    }
    // The namespace of the first sandbox has no spare cell yet; the second sandbox may get one.
    const pods = [
      await sandboxWithCheckpoint("team-a", "first"),
      await sandboxWithCheckpoint("team-a", "second"),
      await sandboxWithCheckpoint("team-b", "third"),
    ];
    for (const pod of pods) {
      const visible = visiblePaths(pod);
      const [store = "", layers = ""] = ["store", "layers"].map((each) => `test/${each}/${pod.metadata.namespace}`);
      // The programs of engines and the cache of their compiled code are the same for all cells, and read-only.
      const shared = ["test/cell-compile-cache", "test/engines", store, layers];
      const others = visible.filter((path) => !["test", "test/store", "test/layers", ...shared].includes(path));
      expect(others.filter((path) => !shared.some((directory) => path.startsWith(`${directory}/`)))).toEqual([]);
      expect(visible).toContainEqual(expect.stringMatching(`^${store}/checkpoints/[^/]+/manifest\\.json$`));
    }
  });
});
