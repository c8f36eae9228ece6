import { generateKeyPairSync } from "node:crypto";
import { chmod, mkdir } from "node:fs/promises";
import { join } from "node:path";
import { readIfExists, replaceFile } from "../files.ts";
import type { CertificateRequest, KeyPair } from "./certificate.ts";

/** A cluster's certificates. The authority and the service-account key are kept; the others are issued at each start. */
export type Pki = Awaited<ReturnType<typeof openPki>>;

export interface KeyPairFiles extends KeyPair {
  certificatePath: string;
  keyPath: string;
}

/** Reads the certificates in `dir`, or creates them. */
export async function openPki(dir: string, now: () => Date) {
  await mkdir(dir, { recursive: true, mode: 0o700 });
  await chmod(dir, 0o700);
  const path = (name: string): string => join(dir, name);
  const authority = await keep(path("ca.pem"), async () =>
    bundle(await issueCertificate({ commonName: "ramet local", use: "authority", now: now(), validDays: 3650 })),
  ).then(unbundle);
  await replaceFile(path("ca.crt"), authority.certificate);
  await keep(path("service-account.key"), serviceAccountKey);
  const issue = (request: Pick<CertificateRequest, "commonName" | "organizations" | "hosts" | "use">) =>
    issueCertificate({ ...request, now: now(), validDays: 365 }, authority);
  return {
    /** The authority's certificate (PEM), and its file. */
    ca: authority.certificate,
    caPath: path("ca.crt"),
    /** The key that signs service-account tokens. */
    serviceAccountKeyPath: path("service-account.key"),
    /** Issues a certificate for the API server or one of its clients. */
    issue,
    /** Issues a certificate into `<name>.crt` and `<name>.key`, which only the owner can read. */
    issueTo: async (name: string, request: Parameters<typeof issue>[0]): Promise<KeyPairFiles> => {
      const pair = await issue(request);
      const files = { certificatePath: path(`${name}.crt`), keyPath: path(`${name}.key`) };
      await replaceFile(files.certificatePath, pair.certificate);
      await replaceFile(files.keyPath, pair.key);
      return { ...pair, ...files };
    },
  };
}

/** Issues a certificate. The library is loaded with the first one: most starts of a cluster need none. */
export async function issueCertificate(request: CertificateRequest, issuer?: KeyPair): Promise<KeyPair> {
  const library = await import("./certificate.ts");
  return library.issueCertificate(request, issuer);
}

function serviceAccountKey(): string {
  const { privateKey } = generateKeyPairSync("ec", { namedCurve: "P-256" });
  return privateKey.export({ type: "sec1", format: "pem" }).toString();
}

async function keep(path: string, make: () => string | Promise<string>): Promise<string> {
  const known = await readIfExists(path);
  if (known !== undefined) return known;
  const text = await make();
  await replaceFile(path, text);
  return text;
}

/** Certificate and key in one file: a crash cannot leave one without the other. */
export function bundle({ certificate, key }: KeyPair): string {
  return certificate + key;
}

export function unbundle(text: string): KeyPair {
  const at = text.indexOf("-----BEGIN PRIVATE KEY-----");
  return { certificate: text.slice(0, at), key: text.slice(at) };
}
