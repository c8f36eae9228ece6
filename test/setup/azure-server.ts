import { mkdir, mkdtemp, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { ContainerClient, StorageSharedKeyCredential } from "@azure/storage-blob";
import type { AzureLocation } from "../../src/api/store/store-address.ts";
import type { KeyPair } from "../../src/local/control-plane/certificate.ts";
import type { Child } from "../../src/local/control-plane/child.ts";
import { startAzureProxy } from "./azure-error-codes.ts";
import { acquireAzurite } from "./azurite.ts";
import { freePort } from "./free-port.ts";
import { startLoopbackServer, startRestartable } from "./loopback-server.ts";
import type { ObjectServer } from "./object-server.ts";

const account = "checkpoints";
const key = Buffer.from("a-secret-of-the-test-server").toString("base64");
const credential = new StorageSharedKeyCredential(account, key);

/** An emulator of Azure Blob, with one account. */
export interface AzureServer extends ObjectServer {
  environment: { AZURE_STORAGE_KEY: string };
  makePlace(endpoint?: string): Promise<AzureLocation>;
}

/**
 * Starts Azurite, which checks signatures, their expiry and permissions, conditions and MD5 like Azure. For tokens it checks
 * the claims but not the signature, and it has no roles: a test with a token does not prove any authorization.
 * @param tls key pair of the server; without it, the server accepts no tokens
 */
export async function startAzureServer(tls?: KeyPair): Promise<AzureServer> {
  const program = await acquireAzurite();
  const dir = await mkdtemp(join(tmpdir(), "ramet-azure-"));
  await mkdir(join(dir, "data"));
  const port = await freePort();
  const start = (): Promise<Child> => startOnce({ program, dir, port, tls });
  // Azurite writes its list of blobs every few seconds and when it stops, so a SIGKILL would lose blobs.
  const server = await startRestartable(dir, start, (child) => child.stop());
  const target = `${tls === undefined ? "http" : "https"}://127.0.0.1:${port}`;
  const proxy = await startAzureProxy(tls === undefined ? { target, credential } : { target, tls });
  const { endpoint } = proxy;
  let made = 0;
  return {
    endpoint,
    environment: { AZURE_STORAGE_KEY: key },
    makePlace: async (by = endpoint) => {
      const container = `container-${++made}`;
      await new ContainerClient(`${endpoint}/${account}/${container}`, credential).create();
      return { driver: "azure", account, container, endpoint: `${by}/${account}` };
    },
    ...server,
    stop: async () => {
      await proxy.stop();
      await server.stop();
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
