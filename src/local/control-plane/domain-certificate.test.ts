import { X509Certificate } from "node:crypto";
import { once } from "node:events";
import { mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { connect, createServer } from "node:tls";
import { afterEach, beforeEach, expect, it } from "vitest";
import { issueCertificate } from "./certificate.ts";
import { domainCertificateFiles, keepDomainCertificate } from "./domain-certificate.ts";
import { unbundle } from "./pki.ts";

const domain = "ramet.localhost";
const day = 86_400_000;
let directory: string;

beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), "ramet-domain-"));
});
afterEach(() => {
  rmSync(directory, { recursive: true });
});

const keep = (now = new Date()) => keepDomainCertificate(directory, domain, now);
const text = (path: string): string => readFileSync(path, "utf8");

it("makes a certificate for a domain, whose files only the owner can read", async () => {
  const files = await keep();
  const certificate = new X509Certificate(text(files.bundle));
  expect(certificate.checkHost(domain)).toBe(domain);
  expect(certificate.checkHost(`api.${domain}`)).toBe(`*.${domain}`);
  expect(certificate.verify(new X509Certificate(text(files.ca)).publicKey)).toBe(true);
  for (const path of [files.bundle, files.ca, files.allCas, join(directory, domain, "ca.pem")]) {
    expect(statSync(path).mode & 0o777).toBe(0o600);
  }
  const [own = "", ...others] = text(files.allCas).split(/(?<=-----END CERTIFICATE-----\n)/);
  expect(own).toBe(text(files.ca));
  expect(others.length).toBeGreaterThan(10);
});

it("keeps the authority, and renews the certificate before its end", async () => {
  const start = new Date();
  const { ca, bundle } = await keep(start);
  const [authority, first] = [text(ca), text(bundle)];
  await keep(new Date(start.getTime() + 59 * day));
  expect(text(bundle)).toBe(first);
  await keep(new Date(start.getTime() + 61 * day));
  expect(text(bundle)).not.toBe(first);
  expect(text(ca)).toBe(authority);
});

it("replaces files that are no certificates", async () => {
  const files = await keep();
  for (const path of [files.bundle, join(directory, domain, "ca.pem")]) writeFileSync(path, "no certificate");
  await keep();
  expect(new X509Certificate(text(files.bundle)).verify(new X509Certificate(text(files.ca)).publicKey)).toBe(true);
});

it("has an authority for the names of the domain only", async () => {
  await keep();
  const { ca } = domainCertificateFiles(directory, domain);
  const authority = unbundle(text(join(directory, domain, "ca.pem")));
  const verify = async (host: string): Promise<string> => {
    const request = { commonName: "a", hosts: [host], use: "server" as const, now: new Date(), validDays: 1 };
    const { certificate, key } = await issueCertificate(request, authority);
    const server = createServer({ cert: certificate, key }, (socket) => socket.end()).listen(0, "127.0.0.1");
    await once(server, "listening");
    const { port } = server.address() as AddressInfo;
    const socket = connect({ port, host: "127.0.0.1", ca: text(ca), checkServerIdentity: () => undefined });
    const [error] = (await once(socket, "secureConnect").catch((cause: unknown) => [cause])) as [Error?];
    socket.destroy();
    server.close();
    return error?.message ?? "valid";
  };
  expect(await verify(`a.${domain}`)).toBe("valid");
  expect(await verify("localhost")).toBe("permitted subtree violation");
  expect(await verify("example.org")).toBe("permitted subtree violation");
  expect(await verify("127.0.0.1")).toBe("excluded subtree violation");
  expect(await verify("::1")).toBe("excluded subtree violation");
});
