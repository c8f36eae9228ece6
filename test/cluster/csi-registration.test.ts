import { existsSync } from "node:fs";
import { mkdtemp, readFile, rm, stat } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { credentials, makeClientConstructor } from "@grpc/grpc-js";
import { afterAll, beforeAll, expect, it } from "vitest";
import { loadRegistrationService } from "../../src/local/csi/unary.ts";
import { registrationProtoPath } from "../../src/local/volumes/local-volumes.ts";
import { type CsiDriver, startCsiDriver } from "../setup/csi-driver.ts";

type Call = (request: object, done: (error: Error | null, response: unknown) => void) => void;

let dir: string;
let driver: CsiDriver;
let socket: string;
beforeAll(async () => {
  dir = await mkdtemp(join(tmpdir(), "ramet-csi-"));
  const kubeletDirectory = join(dir, "kubelet");
  socket = join(kubeletDirectory, "plugins_registry", "local.csi.ramet.dev-reg.sock");
  driver = await startCsiDriver(dir, join(dir, "volumes"), { kubeletDirectory });
});
afterAll(async () => {
  await driver.process.kill();
  await rm(dir, { recursive: true, force: true });
});

/** The test calls what a kubelet calls. A real one does in `npm run test:kubelet`. */
async function call(method: "GetInfo" | "NotifyRegistrationStatus", request: object): Promise<unknown> {
  const service = loadRegistrationService(registrationProtoPath());
  const client = new (makeClientConstructor(service, "registration"))(`unix:${socket}`, credentials.createInsecure());
  try {
    return await new Promise((resolve, reject) => {
      const send = (client as unknown as Record<string, Call>)[method]?.bind(client);
      send?.(request, (error, response) => {
        if (error === null) resolve(response);
        else reject(error);
      });
    });
  } finally {
    client.close();
  }
}

it("answers a kubelet of this machine with its name and its socket, at a socket that only this user can open", async () => {
  await expect.poll(() => existsSync(socket)).toBe(true);
  const info = {
    type: "CSIPlugin",
    name: "local.csi.ramet.dev",
    endpoint: join(dir, "csi.sock"),
    supportedVersions: ["1.0.0"],
  };
  await expect.poll(() => call("GetInfo", {}).catch(String)).toEqual(info);
  expect((await stat(socket)).mode & 0o777).toBe(0o600);
});

it("logs why a kubelet did not register it", async () => {
  await call("NotifyRegistrationStatus", { pluginRegistered: false, error: "the node is gone" });
  expect(await readFile(driver.log, "utf8")).toContain('"error":"the node is gone"');
});

it("removes the registration when it stops, and replaces that of a driver that was killed", async () => {
  await driver.process.kill();
  expect(existsSync(socket)).toBe(true);
  driver = await startCsiDriver(dir, join(dir, "volumes"), { kubeletDirectory: join(dir, "kubelet") });
  await expect.poll(() => call("GetInfo", {}).catch(String)).toMatchObject({ name: "local.csi.ramet.dev" });
  await driver.process.stop();
  expect(existsSync(socket)).toBe(false);
});
