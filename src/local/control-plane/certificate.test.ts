import { X509Certificate } from "node:crypto";
import { connect, createServer } from "node:tls";
import { once } from "node:events";
import type { AddressInfo } from "node:net";
import { expect, it } from "vitest";
import { issueCertificate } from "./certificate.ts";

const now = new Date();
const authority = await issueCertificate({ commonName: "ramet test", use: "authority", now, validDays: 3650 });

it("issues a certificate with the requested names, which its authority verifies", async () => {
  const leaf = await issueCertificate(
    {
      commonName: "ramet-admin",
      organizations: ["system:masters", "ramet"],
      hosts: ["localhost", "127.0.0.1", "::1", "fd00::1:2"],
      use: "server",
      now,
      validDays: 365,
    },
    authority,
  );
  const parsed = new X509Certificate(leaf.certificate);
  const issuer = new X509Certificate(authority.certificate);
  expect(parsed.verify(issuer.publicKey)).toBe(true);
  expect(parsed.checkIssued(issuer)).toBe(true);
  expect(issuer.ca).toBe(true);
  expect(parsed.ca).toBe(false);
  expect(parsed.subject).toBe("O=system:masters\nO=ramet\nCN=ramet-admin");
  for (const host of ["127.0.0.1", "::1", "fd00::1:2"]) expect(parsed.checkIP(host)).toBe(host);
  expect(parsed.checkHost("localhost")).toBe("localhost");
  expect(new Date(parsed.validTo).getTime() - now.getTime()).toBeGreaterThan(364 * 86_400_000);
});

it("encodes a validity past 2049", async () => {
  const old = await issueCertificate({ commonName: "long", use: "authority", now, validDays: 36_500 });
  expect(new Date(new X509Certificate(old.certificate).validTo).getUTCFullYear()).toBeGreaterThan(2049);
});

it("supports a TLS connection that verifies both sides", async () => {
  const server = await issueCertificate(
    { commonName: "server", hosts: ["127.0.0.1"], use: "server", now, validDays: 1 },
    authority,
  );
  const client = await issueCertificate({ commonName: "client", use: "client", now, validDays: 1 }, authority);
  const listener = createServer(
    { cert: server.certificate, key: server.key, ca: authority.certificate, requestCert: true },
    (socket) => socket.end(String(socket.getPeerCertificate().subject.CN)),
  );
  listener.listen(0, "127.0.0.1");
  await once(listener, "listening");
  const { port } = listener.address() as AddressInfo;
  const socket = connect({
    port,
    host: "127.0.0.1",
    ca: authority.certificate,
    cert: client.certificate,
    key: client.key,
  });
  const received: Buffer[] = [];
  for await (const chunk of socket) received.push(chunk as Buffer);
  listener.close();
  expect(Buffer.concat(received).toString()).toBe("client");
});
