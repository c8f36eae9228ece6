import { rename, writeFile } from "node:fs/promises";
import { stringify } from "yaml";
import type { KeyPair } from "./certificate.ts";

export interface KubeconfigOptions {
  /** The name of the cluster, the context and the user in the file. */
  name: string;
  /** URL of the API server. */
  server: string;
  /** PEM of the authority that signed the API server's certificate. */
  ca: string;
  client: KeyPair;
}

/** A kubeconfig with embedded certificates. */
export function kubeconfig({ name, server, ca, client }: KubeconfigOptions): string {
  const base64 = (text: string): string => Buffer.from(text).toString("base64");
  return stringify({
    apiVersion: "v1",
    kind: "Config",
    clusters: [{ name, cluster: { server, "certificate-authority-data": base64(ca) } }],
    users: [
      {
        name,
        user: { "client-certificate-data": base64(client.certificate), "client-key-data": base64(client.key) },
      },
    ],
    contexts: [{ name, context: { cluster: name, user: name, namespace: "default" } }],
    "current-context": name,
  });
}

/** Writes a kubeconfig atomically. Only the owner can read it. */
export async function writeKubeconfig(path: string, options: KubeconfigOptions): Promise<void> {
  const temporary = `${path}.${process.pid}.new`;
  await writeFile(temporary, kubeconfig(options), { mode: 0o600 });
  await rename(temporary, path);
}
