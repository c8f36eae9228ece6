import { mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { ContainerClient, StorageSharedKeyCredential } from "@azure/storage-blob";
import type { AzureLocation } from "../../src/api/store/store-address.ts";
import type { KeyPair } from "../../src/local/control-plane/certificate.ts";
import type { Child } from "../../src/local/control-plane/child.ts";
import { freePort } from "../../src/local/control-plane/readiness.ts";
import { speakAsAzure } from "./azure-words.ts";
import { acquireAzurite } from "./azurite.ts";
import { startLoopbackServer } from "./loopback-server.ts";
import type { ObjectServer } from "./object-server.ts";

const account = "checkpoints";
const key = Buffer.from("a-secret-of-the-test-server").toString("base64");

/** An emulator of Azure Blob, with one account. */
export interface AzureServer extends ObjectServer {
  environment: { AZURE_STORAGE_KEY: string };
  makePlace(endpoint?: string): Promise<AzureLocation>;
}

/**
 * Azurite checks signatures, their times and rights, conditions and MD5 as Azure does. Of tokens it reads the claims and not the
 * signature, and it knows no roles: what it takes by a token proves nothing of who may do what.
 * @param tls with which it is reached; without, it takes no tokens
 */
export async function startAzureServer(tls?: KeyPair): Promise<AzureServer> {
  const program = await acquireAzurite();
  const dir = await mkdtemp(join(tmpdir(), "ramet-azure-"));
  await mkdir(join(dir, "data"));
  const port = await freePort();
  const start = (): Promise<Child> => startOnce({ program, dir, port, tls });
  let child = await start();
  const way = await speakAsAzure(`${tls === undefined ? "http" : "https"}://127.0.0.1:${port}`, tls);
  const { endpoint } = way;
  let made = 0;
  return {
    endpoint,
    environment: { AZURE_STORAGE_KEY: key },
    makePlace: async (by = endpoint) => {
      const container = `container-${++made}`;
      await new ContainerClient(
        `${endpoint}/${account}/${container}`,
        new StorageSharedKeyCredential(account, key),
      ).create();
      return { driver: "azure", account, container, endpoint: `${by}/${account}` };
    },
    // What blobs there are it writes down every few seconds, and at its end.
    kill: () => child.stop(),
    restart: async () => {
      await child.stop();
      child = await start();
    },
    stop: async () => {
      await way.stop();
      await child.stop();
      await rm(dir, { recursive: true, force: true });
    },
  };
}

interface Place {
  program: string;
  dir: string;
  port: number;
  tls: KeyPair | undefined;
}

async function startOnce({ program, dir, port, tls }: Place): Promise<Child> {
  const [cert, privateKey] = [join(dir, "certificate.pem"), join(dir, "key.pem")];
  if (tls !== undefined) await Promise.all([writeFile(cert, tls.certificate), writeFile(privateKey, tls.key)]);
  return startLoopbackServer({
    what: "Azurite",
    program: process.execPath,
    dir,
    port,
    args: [
      program,
      "--blobHost",
      "127.0.0.1",
      "--blobPort",
      String(port),
      "--location",
      join(dir, "data"),
      "--silent",
      "--disableTelemetry",
      "--disableProductStyleUrl",
      "--skipApiVersionCheck",
      ...(tls === undefined ? [] : ["--oauth", "basic", "--cert", cert, "--key", privateKey]),
    ],
    environment: { AZURITE_ACCOUNTS: `${account}:${key}` },
  });
}
