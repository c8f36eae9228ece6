import { readdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import { inspect } from "node:util";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { Sandbox } from "../../src/api/kinds/sandbox.ts";
import { formatStoreAddress, nameOfStore, type StoreLocation } from "../../src/api/store/store-address.ts";
import { memoryIo } from "../setup/memory-io.ts";
import { runProgram } from "../../src/cli/program.ts";
import type { Log } from "../../src/base/log.ts";
import { systemClock } from "../../src/base/clock.ts";
import type { Bucket } from "../../src/store/objects/bucket.ts";
import { objectStore } from "../../src/store/objects/store.ts";
import { startFaultProxy, type FaultProxy } from "../setup/fault-proxy.ts";
import type { ObjectServer } from "../setup/object-server.ts";
import type { CloudUnderTest } from "../contract/store/cloud-under-test.ts";
import { publish } from "../contract/store/harness.ts";
import { openCluster, type Cluster } from "./controllers-cluster.ts";
import { count, counterTemplate as template } from "./counter.ts";
import { realNode } from "./controllers-real-node.ts";

/** Tests with real cells and real gVisor: checkpoints are in a bucket instead of a directory, and cells have no credentials. */
export function objectsStore(cloud: CloudUnderTest, bucketAt: (location: StoreLocation) => Bucket): void {
  describe(`a cluster whose store is in ${cloud.name}`, () => {
    let server: ObjectServer;
    let proxy: FaultProxy;
    let location: StoreLocation;
    let bucket: Bucket;
    let cluster: Cluster;

    /** All log messages of the controllers and the node, with all fields. */
    const logged: string[] = [];
    const record = (fields: object, message: string): void =>
      void logged.push(`${message} ${inspect(fields, { depth: Infinity })}`);
    const log: Log = { debug: record, info: record, warn: record, error: record };
    const secrets = new RegExp(cloud.secrets, "i");

    beforeAll(async () => {
      server = await cloud.start();
      proxy = await startFaultProxy(server.endpoint);
      // The environment of the controllers, which run in this process. Cells get theirs from the node.
      Object.assign(process.env, server.environment);
      location = { ...(await server.makePlace(proxy.endpoint)), prefix: "ramet" };
      bucket = bucketAt(location);
      cluster = await openCluster({ startNode: realNode({ log }), store: objectStore({ bucket }), log });
      await cluster.namespace("t");
    });
    afterAll(async () => {
      await cluster.close();
      await proxy.stop();
      await server.stop();
    });

    async function create(kind: string, name: string, rest: { spec: object; annotations?: Record<string, string> }) {
      const { annotations, ...body } = rest;
      const metadata = { name, namespace: "t", ...(annotations && { annotations }) };
      await cluster.create({ apiVersion, kind, metadata, ...body });
    }

    async function keys(): Promise<string[]> {
      const all: string[] = [];
      for await (const { key } of bucket.list("")) all.push(key);
      return all;
    }

    it("captures a sandbox with its memory into the bucket, and restores it in a clone", async () => {
      await create("Sandbox", "a", { spec: { template } });
      await cluster.sandbox("t/a", settled);
      expect([await count(cluster, "a"), await count(cluster, "a")]).toEqual([1, 2]);

      await create("Checkpoint", "a-1", { spec: { podName: "a" } });
      const { status } = await cluster.checkpoint("t/a-1", ({ status: now }) => now?.phase === "Succeeded");
      const id = status?.checkpointId ?? "";
      expect(await keys()).toEqual(expect.arrayContaining(["store.json", `t/${id}/manifest.json`]));

      await create("Sandbox", "b", { spec: {}, annotations: { "ramet.dev/restore-from": id } });
      const clone = await cluster.sandbox("t/b", settled);
      expect(clone.status).toMatchObject({ phase: "Running", ramet: { restoredFrom: id } });
      expect(await count(cluster, "b")).toBe(3);
      expect(await count(cluster, "a")).toBe(3);
    });

    it("gives cells neither keys nor a store directory, and leaves no transferred files in theirs", async () => {
      const cells = await cellProcesses(cluster);
      expect(cells.length).toBeGreaterThanOrEqual(2);
      const [variable = ""] = Object.keys(server.environment);
      const ofCloud = variable.slice(0, variable.indexOf("_") + 1);
      for (const { environment, root } of cells) {
        expect(environment).not.toContain(ofCloud);
        expect(environment).not.toMatch(secrets);
        // A cell removes these files without delaying its response, so they may still exist for a moment.
        const remaining = async () => {
          const names = await readdir(join(root, "run/ramet/cell")).catch(() => []);
          return names.filter((name) => /^(checkpoint|restore)-/.test(name));
        };
        await expect.poll(remaining, { timeout: 30_000 }).toEqual([]);
      }
      const directory = await readdir(join(cluster.storePath, "t")).catch(() => []);
      expect(directory).toEqual([]);
    });

    it("deletes a Checkpoint's data from the bucket, and does not affect its clone", async () => {
      await cluster.seen.checkpoints.resource.delete({ namespace: "t", name: "a-1" });
      await cluster.untilDeleted("checkpoints", "t/a-1");
      expect(await keys()).toEqual(["store.json"]);
      expect(await count(cluster, "b")).toBe(4);
    });

    it("keeps the source running when the store stops during a capture, and reports it in the Checkpoint", async () => {
      let killed: Promise<void> | undefined;
      proxy.choose = ({ method }) => {
        if (method === "PUT") killed ??= server.kill();
        return "pass";
      };
      await create("Checkpoint", "a-2", { spec: { podName: "a" } });
      const { status } = await cluster.checkpoint("t/a-2", ({ status: now }) => now?.phase === "Failed");
      expect(killed).toBeDefined();
      expect(status?.message).toContain("the store did not respond");
      expect(status?.message).toContain("the sandbox keeps running");
      expect(status?.message).toContain("[StoreUnavailable]");
      expect(status?.message).not.toMatch(secrets);
      expect(await count(cluster, "a")).toBe(4);

      proxy.choose = () => "pass";
      await server.restart();
      await create("Checkpoint", "a-3", { spec: { podName: "a" } });
      await cluster.checkpoint("t/a-3", ({ status: now }) => now?.phase === "Succeeded");
    });

    it("sweeps the bucket by its address with ramet gc", async () => {
      const { status } = await cluster.checkpoint("t/a-3", ({ status: now }) => now?.phase === "Succeeded");
      await publish({ store: objectStore({ bucket }) }, { namespace: "t", checkpointId: "lost" }, { "pages.img": "x" });
      // Two hours later, so that the data in the store is old enough to be swept.
      const clock = { ...systemClock, now: () => new Date(Date.now() + 7_200_000) };
      const io = memoryIo({ clock, environment: { XDG_DATA_HOME: "/nowhere", KUBECONFIG: cluster.kubeconfigPath } });
      expect(await runProgram(io, ["gc", "-n", "t", "--store-path", formatStoreAddress(location)])).toBe(0);
      expect(io.written("stdout")).toContain(`The store ${nameOfStore(location)} lost 1 checkpoint without an object`);
      expect((await keys()).filter((key) => key.endsWith("manifest.json"))).toEqual([
        `t/${status?.checkpointId ?? ""}/manifest.json`,
      ]);
    });

    it("writes no credentials or signatures to a log or an object", () => {
      const { checkpoints, sandboxes, pods } = cluster.seen;
      const objects = [checkpoints, sandboxes, pods].flatMap(({ store }) =>
        store.list().map((object) => JSON.stringify(object)),
      );
      expect(logged.length).toBeGreaterThan(0);
      expect(objects.length).toBeGreaterThan(5);
      expect([...logged, ...objects].filter((text) => secrets.test(text))).toEqual([]);
    });
  });
}

const apiVersion = "agents.kruise.io/v1alpha1";
const settled = ({ status }: Sandbox): boolean => status?.phase === "Running" || status?.phase === "Failed";

/** Finds the cells of this cluster: their environment names its directory. */
async function cellProcesses(cluster: Cluster): Promise<{ environment: string; root: string }[]> {
  const pids = (await readdir("/proc")).filter((name) => /^\d+$/.test(name));
  const all = await Promise.all(
    pids.map(async (pid) => ({
      root: `/proc/${pid}/root`,
      command: await readFile(`/proc/${pid}/cmdline`, "utf8").catch(() => ""),
      environment: await readFile(`/proc/${pid}/environ`, "utf8").catch(() => ""),
    })),
  );
  const home = `HOME=${cluster.storePath.replace(/\/store$/, "")}`;
  return all.filter(
    ({ command, environment }) => /cell(\.ts|\.c?js)?\0/.test(command) && environment.split("\0").includes(home),
  );
}
