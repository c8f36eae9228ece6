import { KeyObject, type webcrypto } from "node:crypto";
import { isIP } from "node:net";
import type { Extension, JsonGeneralNames, JsonName } from "@peculiar/x509";

/** A certificate and its private key, both PEM. */
export interface KeyPair {
  certificate: string;
  key: string;
}

export interface CertificateRequest {
  commonName: string;
  /** Kubernetes reads these as the client's groups. */
  organizations?: string[];
  /** The server's DNS names and IP addresses. */
  hosts?: string[];
  use: "authority" | "server" | "client";
  /** The only DNS domain for whose names an authority can issue certificates. It can then issue none for addresses. @default all */
  permittedDomain?: string;
  now: Date;
  validDays: number;
}

/** Issues an ECDSA P-256 certificate (RFC 5280), signed by `issuer` or self-signed. */
export async function issueCertificate(request: CertificateRequest, issuer?: KeyPair): Promise<KeyPair> {
  const x509 = await library();
  const { publicKey, privateKey } = await crypto.subtle.generateKey(keyAlgorithm, true, ["sign", "verify"]);
  const issued = issuer && new x509.X509Certificate(issuer.certificate);
  const subject: JsonName = [
    ...(request.organizations ?? []).map((organization) => ({ O: [organization] })),
    { CN: [request.commonName] },
  ];
  const certificate = await x509.X509CertificateGenerator.create({
    subject,
    issuer: issued?.subjectName ?? subject,
    // Starts a day early, because clocks of two machines differ.
    notBefore: new Date(request.now.getTime() - dayMilliseconds),
    notAfter: new Date(request.now.getTime() + request.validDays * dayMilliseconds),
    publicKey,
    signingKey: issuer === undefined ? privateKey : await signingKey(issuer),
    signingAlgorithm: keyAlgorithm,
    extensions: [
      ...(request.use === "authority" ? await ofAuthority(request) : await ofLeaf(request)),
      // Python requires both since 3.13.
      await x509.SubjectKeyIdentifierExtension.create(publicKey),
      ...(issued ? [await x509.AuthorityKeyIdentifierExtension.create(issued.publicKey)] : []),
    ],
  });
  const key = KeyObject.from(privateKey).export({ type: "pkcs8", format: "pem" }).toString();
  return { certificate: `${certificate.toString("pem")}\n`, key };
}

/** Loaded when a certificate is issued: it takes 0.1 s. */
async function library() {
  await import("reflect-metadata");
  return import("@peculiar/x509");
}

const keyAlgorithm = { name: "ECDSA", namedCurve: "P-256", hash: "SHA-256" };
const dayMilliseconds = 86_400_000;

async function signingKey({ key }: KeyPair): Promise<webcrypto.CryptoKey> {
  const { PemConverter } = await library();
  return crypto.subtle.importKey("pkcs8", PemConverter.decodeFirst(key), keyAlgorithm, false, ["sign"]);
}

async function ofAuthority({ permittedDomain }: CertificateRequest): Promise<Extension[]> {
  const { BasicConstraintsExtension, KeyUsagesExtension, KeyUsageFlags } = await library();
  return [
    new BasicConstraintsExtension(true, undefined, true),
    new KeyUsagesExtension(KeyUsageFlags.keyCertSign | KeyUsageFlags.cRLSign, true),
    ...(permittedDomain === undefined ? [] : [await nameConstraints(permittedDomain)]),
  ];
}

/**
 * A domain without a leading dot also means all names below it. The excluded ranges are all addresses (RFC 5280, section
 * 4.2.1.10).
 */
async function nameConstraints(domain: string): Promise<Extension> {
  const { Extension } = await library();
  const { GeneralName, GeneralSubtree, GeneralSubtrees, NameConstraints, id_ce_nameConstraints } =
    await import("@peculiar/asn1-x509");
  const { AsnConvert } = await import("@peculiar/asn1-schema");
  const subtrees = (...names: ConstructorParameters<typeof GeneralName>[0][]) =>
    new GeneralSubtrees(names.map((name) => new GeneralSubtree({ base: new GeneralName(name) })));
  const value = new NameConstraints({
    permittedSubtrees: subtrees({ dNSName: domain }),
    excludedSubtrees: subtrees({ iPAddress: "0.0.0.0/0.0.0.0" }, { iPAddress: "::/::" }),
  });
  return new Extension(id_ce_nameConstraints, true, AsnConvert.serialize(value));
}

async function ofLeaf({ use, hosts = [] }: CertificateRequest): Promise<Extension[]> {
  const x509 = await library();
  const names = hosts.map((value): JsonGeneralNames[number] => ({ type: isIP(value) === 0 ? "dns" : "ip", value }));
  return [
    new x509.BasicConstraintsExtension(false, undefined, true),
    new x509.KeyUsagesExtension(x509.KeyUsageFlags.digitalSignature, true),
    new x509.ExtendedKeyUsageExtension([x509.ExtendedKeyUsage[use === "server" ? "serverAuth" : "clientAuth"]]),
    ...(names.length > 0 ? [new x509.SubjectAlternativeNameExtension(names)] : []),
  ];
}
