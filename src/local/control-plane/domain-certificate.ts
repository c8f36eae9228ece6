import { X509Certificate } from "node:crypto";
import { mkdir } from "node:fs/promises";
import { join } from "node:path";
import { getCACertificates } from "node:tls";
import type { KeyPair } from "./certificate.ts";
import { readIfExists, replaceFile } from "../files.ts";
import { bundle, unbundle, issueCertificate } from "./pki.ts";
import { resultOr } from "../../base/errors.ts";

/** The files with which the gateway of a local cluster serves TLS. Only the owner can read them. */
export interface DomainCertificate {
  /** The certificate and its key, both in one file. It is valid for the domain and the names directly below it. */
  bundle: string;
  /** The authority's certificate. It can issue certificates for nothing outside the domain. */
  ca: string;
  /** The authority's certificate together with those that this machine trusts, for clients that read only one file. */
  allCas: string;
}

/** The paths of the files in `dir`. A domain has an authority of its own. */
export function domainCertificateFiles(dir: string, domain: string): DomainCertificate {
  const path = (name: string): string => join(dir, domain, name);
  return { bundle: path("gateway.pem"), ca: path("ca.crt"), allCas: path("ca-bundle.crt") };
}

/**
 * Creates the authority of a domain and its certificate, if they are missing, and renews the certificate 30 days before its end.
 * The gateway reads it again each minute.
 */
export async function keepDomainCertificate(dir: string, domain: string, now: Date): Promise<DomainCertificate> {
  const files = domainCertificateFiles(dir, domain);
  await mkdir(join(dir, domain), { recursive: true, mode: 0o700 });
  const authority = await keepAuthority(join(dir, domain, "ca.pem"), domain, now);
  await replaceFile(files.ca, authority.certificate);
  await replaceFile(files.allCas, withTrusted(authority.certificate));
  if (!(await isCurrent(files.bundle, authority, now))) {
    const hosts = [domain, `*.${domain}`];
    const request = { commonName: domain, hosts, use: "server" as const, now, validDays: validDays.server };
    await replaceFile(files.bundle, bundle(await issueCertificate(request, authority)));
  }
  return files;
}

const validDays = { authority: 3650, server: 90 };
const renewBeforeMilliseconds = 30 * 86_400_000;

async function keepAuthority(path: string, domain: string, now: Date): Promise<KeyPair> {
  const known = await readIfExists(path);
  if (known !== undefined && endsAfter(known, now.getTime() + renewBeforeMilliseconds)) return unbundle(known);
  const authority = await issueCertificate({
    commonName: `ramet local ${domain}`,
    use: "authority",
    permittedDomain: domain,
    now,
    validDays: validDays.authority,
  });
  await replaceFile(path, bundle(authority));
  return authority;
}

async function isCurrent(path: string, authority: KeyPair, now: Date): Promise<boolean> {
  const known = await readIfExists(path);
  if (known === undefined || !endsAfter(known, now.getTime() + renewBeforeMilliseconds)) return false;
  return new X509Certificate(known).verify(new X509Certificate(authority.certificate).publicKey);
}

function endsAfter(pem: string, milliseconds: number): boolean {
  return resultOr(() => new Date(new X509Certificate(pem).validTo).getTime() > milliseconds, false);
}

/** A machine without certificates of its own gets those of Node. */
function withTrusted(certificate: string): string {
  const system = getCACertificates("system");
  const trusted = system.length > 0 ? system : getCACertificates("bundled");
  const all = new Set([certificate, ...trusted].map((pem) => pem.trim()));
  return [...all, ""].join("\n");
}
