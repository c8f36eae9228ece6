import { describe, expect, it } from "vitest";
import { sandboxKind } from "../../src/api/kinds/sandbox.ts";
import { isPodReady } from "../../src/api/schema/pod.ts";
import { coreResources, refOf } from "../../src/kube/resource-ref.ts";
import { Claim } from "../../src/kube/volumes/volumes.ts";
import type { NodePod } from "../../src/local/node/pod.ts";
import { runningCluster } from "./running-cluster.ts";

const cluster = runningCluster();

const ready = (pod: NodePod | undefined): boolean => pod !== undefined && isPodReady(pod);
const claimSpec = { accessModes: ["ReadWriteOnce"], resources: { requests: { storage: "1Gi" } } };

async function createClaim(name: string): Promise<void> {
  await (await cluster.client()).resource(coreResources.persistentVolumeClaims).create({
    apiVersion: "v1",
    kind: "PersistentVolumeClaim",
    metadata: { namespace: "default", name },
    spec: claimSpec,
  });
}

function untilClaim(name: string, holds: (claim: Claim | undefined) => boolean): Promise<Claim | undefined> {
  const at = { namespace: "default", name };
  return cluster.until(coreResources.persistentVolumeClaims, at, (value) => Claim.parse(value), holds);
}

/** A container that mounts the claim, and a volume for it. */
const mounting = (claimName: string, mount: object = {}) => ({
  container: { volumeMounts: [{ name: "data", mountPath: "/data", ...mount }] },
  volumes: [{ name: "data", persistentVolumeClaim: { claimName } }],
});

async function remove(sandbox: string): Promise<void> {
  await cluster.deleteSandbox(sandbox);
  await cluster.untilPod(sandbox, (pod) => pod === undefined);
}

describe("a PersistentVolumeClaim on a local cluster", () => {
  it("keeps files from one sandbox to the next, and is deleted when no Pod uses it", async () => {
    const write = "open('/data/file', 'w').write('kept'); print('written')\nimport time; time.sleep(600)";
    await cluster.createSandbox("writer", write, mounting("work"));
    const missing = "Mounting the PersistentVolumeClaim work failed: it does not exist";
    await cluster.untilPod("writer", (pod) => JSON.stringify(pod?.status ?? {}).includes(missing));
    await createClaim("work");
    await cluster.untilPod("writer", ready);
    await cluster.untilPrinted("writer");
    expect((await untilClaim("work", (claim) => claim?.status?.phase === "Bound"))?.status).toMatchObject({
      capacity: { storage: "1Gi" },
    });
    await (await cluster.client()).resource(coreResources.persistentVolumeClaims).delete({
      namespace: "default",
      name: "work",
    });
    // A second sandbox cannot mount what is being deleted, and the first one keeps it.
    await cluster.createSandbox("late", "", mounting("work"));
    await cluster.untilPod("late", (pod) => JSON.stringify(pod?.status ?? {}).includes("it is being deleted"));
    await remove("late");
    expect(await untilClaim("work", () => true)).toBeDefined();
    await remove("writer");
    await untilClaim("work", (claim) => claim === undefined);

    await createClaim("other");
    await cluster.createSandbox("first", write, mounting("other"));
    await cluster.untilPod("first", ready);
    await cluster.untilPrinted("first");
    await remove("first");
    const read = "print(open('/data/file').read())\nimport time; time.sleep(600)";
    await cluster.createSandbox("second", read, mounting("other"));
    await cluster.untilPod("second", ready);
    await cluster.untilPrinted("second");
    expect(await cluster.logs("second")).toBe("kept\n");
  });

  it("creates a directory for a sub-path, and follows no link that a sandbox has left in the volume", async () => {
    await createClaim("linked");
    const link = "import os, time; os.symlink('/etc', '/data/link'); print('made'); time.sleep(600)";
    await cluster.createSandbox("linking", link, mounting("linked"));
    await cluster.untilPod("linking", ready);
    await cluster.untilPrinted("linking");
    await remove("linking");
    const list = "import os, time; print(os.listdir('/data')); time.sleep(600)";
    await cluster.createSandbox("below", list, mounting("linked", { subPath: "new/one" }));
    await cluster.untilPod("below", ready);
    await cluster.untilPrinted("below");
    expect(await cluster.logs("below")).toBe("[]\n");
    await cluster.createSandbox("curious", list, mounting("linked", { subPath: "link" }));
    const ended = await cluster.untilPod("curious", (pod) => pod?.status?.phase === "Failed");
    expect(ended?.status?.["message"]).toMatch(/^Binding .*\/link failed: too many levels of symbolic links/);
  });

  it("is created for a sandbox from its template, and deleted with the sandbox", async () => {
    const client = await cluster.client();
    const script = "echo once >> /data/starts; wc -l < /data/starts; sleep 600";
    const container = { name: "main", image: "python", command: ["sh", "-c", script] };
    await client.resource(refOf(sandboxKind)).create({
      apiVersion: "agents.kruise.io/v1alpha1",
      kind: "Sandbox",
      metadata: { namespace: "default", name: "owner" },
      spec: {
        template: {
          spec: { containers: [{ ...container, volumeMounts: [{ name: "data", mountPath: "/data" }] }] },
        },
        volumeClaimTemplates: [{ metadata: { name: "data" }, spec: claimSpec }],
      },
    });
    await cluster.untilPod("owner", ready);
    await cluster.untilPrinted("owner");
    expect(await untilClaim("data-owner", (claim) => claim?.status?.phase === "Bound")).toBeDefined();
    await remove("owner");
    await untilClaim("data-owner", (claim) => claim === undefined);
  });
});
