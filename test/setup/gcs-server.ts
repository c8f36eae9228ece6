import { mkdir, mkdtemp, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { acquirePinned } from "../../src/local/tools/acquire-tools.ts";
import { freePort } from "./free-port.ts";
import { startGcsFront } from "./gcs-front.ts";
import { makeGcsAccount } from "./google-account.ts";
import { startLoopbackServer, startRestartable } from "./loopback-server.ts";
import type { ObjectServer } from "./object-server.ts";
import { pinnedTestTool } from "./pinned-tools.ts";

/**
 * A stand-in for Google Cloud Storage on this machine: fake-gcs-server stores and lists objects, and `gcs-front.ts`
 * authenticates the requests. Does not prove how Google checks and rejects requests, or how fast it is.
 */
export interface GcsServer extends ObjectServer {
  environment: { GOOGLE_APPLICATION_CREDENTIALS: string };
  /** Creates an empty bucket and returns its name. */
  makeBucket(): Promise<string>;
}

export async function startGcsServer(): Promise<GcsServer> {
  const { "fake-gcs-server": program } = await acquirePinned(pinnedTestTool, { names: ["fake-gcs-server"] });
  const dir = await mkdtemp(join(tmpdir(), "ramet-gcs-"));
  const account = makeGcsAccount();
  const keyPath = join(dir, "key.json");
  await Promise.all([mkdir(join(dir, "buckets")), writeFile(keyPath, account.keyFile)]);
  const port = await freePort();
  const args = ["-scheme=http", "-host=127.0.0.1", `-port=${port}`, `-filesystem-root=${dir}/buckets`];
  const start = () => startLoopbackServer({ what: "fake-gcs-server", program, args, dir, port });
  const server = await startRestartable(dir, start);
  const target = `http://127.0.0.1:${port}`;
  const front = await startGcsFront(target, account);
  let made = 0;
  const makeBucket = async (): Promise<string> => {
    const name = `bucket-${++made}`;
    const { status } = await fetch(`${target}/storage/v1/b`, { method: "POST", body: JSON.stringify({ name }) });
    if (status !== 200) throw new Error(`fake-gcs-server failed to create a bucket: status ${status}`);
    return name;
  };
  const { endpoint } = front;
  return {
    endpoint,
    environment: { GOOGLE_APPLICATION_CREDENTIALS: keyPath },
    makeBucket,
    makePlace: async (way = endpoint) => ({ driver: "gcs", bucket: await makeBucket(), endpoint: way }),
    ...server,
    stop: async () => {
      await front.stop();
      await server.stop();
    },
  };
}
