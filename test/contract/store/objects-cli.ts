import { execFile } from "node:child_process";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { formatStoreAddress, nameOfStore, type StoreLocation } from "../../../src/api/store/store-address.ts";
import { storeAt } from "../../../src/store/store-at.ts";
import { builtPrograms } from "../../setup/built-package.ts";
import type { ObjectServer } from "../../setup/object-server.ts";
import type { CloudUnderTest } from "./cloud-under-test.ts";
import { publish } from "./harness.ts";

/** Tests the built package, which contains the cloud's client. */
export function objectsCli(cloud: CloudUnderTest): void {
  describe(`a store in ${cloud.name}`, () => {
    let server: ObjectServer;
    let location: StoreLocation;
    beforeAll(async () => {
      server = await cloud.start();
      Object.assign(process.env, server.environment);
      location = { ...(await server.makePlace()), prefix: "ramet" };
      const store = await storeAt(location);
      await store.bind("cluster-uid");
      const ref = { namespace: "a", checkpointId: "one" };
      await publish({ store }, ref, { "pages.img": "x".repeat(2048) });
    });
    afterAll(() => server.stop());

    function ramet(...args: string[]): Promise<{ code: number; stdout: string; stderr: string }> {
      const [node, program] = builtPrograms.ramet;
      const env = { PATH: process.env["PATH"], HOME: "/nowhere", ...server.environment };
      return new Promise((resolve) => {
        execFile(node, [program, ...args], { env }, (error, stdout, stderr) => {
          resolve({ code: Number(error?.code ?? 0), stdout, stderr });
        });
      });
    }

    it("reads the store by its address with ramet store usage", async () => {
      const { code, stdout } = await ramet("store", "usage", "--path", formatStoreAddress(location), "-o", "json");
      expect(code).toBe(0);
      const usage = { checkpoints: 1, contents: 1, contentBytes: 2048, sharedBytes: 0, stagingBytes: 0 };
      expect(JSON.parse(stdout)).toEqual({
        path: nameOfStore(location),
        cluster: "cluster-uid",
        namespaces: [{ namespace: "a", ...usage }],
      });
    });

    it("reads the whole store with ramet store scrub", async () => {
      const { code, stderr } = await ramet("store", "scrub", "--path", formatStoreAddress(location));
      expect(stderr).toContain("1 checkpoints, 2KiB read: nothing is damaged");
      expect(code).toBe(0);
    });

    it("reports a missing bucket", async () => {
      const nowhere = formatStoreAddress(cloud.elsewhere(location));
      const { code, stderr } = await ramet("store", "usage", "--path", nowhere);
      expect(stderr).toContain(cloud.noBucket);
      expect(code).toBe(1);
    });
  });
}
