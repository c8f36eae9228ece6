import { KeyObject, type webcrypto } from "node:crypto";
import { isIP } from "node:net";
// The library reads the metadata of its own classes, so this comes first.
import "reflect-metadata";
import { AsnConvert } from "@peculiar/asn1-schema";
import {
  GeneralName,
  GeneralSubtree,
  GeneralSubtrees,
  id_ce_nameConstraints,
  NameConstraints,
} from "@peculiar/asn1-x509";
import * as x509 from "@peculiar/x509";

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

/**
 * Issues an ECDSA P-256 certificate (RFC 5280), signed by `issuer` or self-signed. Programs
 * call it through `pki.ts`, which loads this file and its library when they are needed.
 */
export async function issueCertificate(request: CertificateRequest, issuer?: KeyPair): Promise<KeyPair> {
  const { publicKey, privateKey } = await crypto.subtle.generateKey(keyAlgorithm, true, ["sign", "verify"]);
  const issued = issuer && new x509.X509Certificate(issuer.certificate);
  const subject: x509.JsonName = [
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
      ...(request.use === "authority" ? ofAuthority(request) : ofLeaf(request)),
      // Python requires both since 3.13.
      await x509.SubjectKeyIdentifierExtension.create(publicKey),
      ...(issued ? [await x509.AuthorityKeyIdentifierExtension.create(issued.publicKey)] : []),
    ],
  });
  const key = KeyObject.from(privateKey).export({ type: "pkcs8", format: "pem" }).toString();
  return { certificate: `${certificate.toString("pem")}\n`, key };
}

const keyAlgorithm = { name: "ECDSA", namedCurve: "P-256", hash: "SHA-256" };
const dayMilliseconds = 86_400_000;

async function signingKey({ key }: KeyPair): Promise<webcrypto.CryptoKey> {
  return crypto.subtle.importKey("pkcs8", x509.PemConverter.decodeFirst(key), keyAlgorithm, false, ["sign"]);
}

function ofAuthority({ permittedDomain }: CertificateRequest): x509.Extension[] {
  return [
    new x509.BasicConstraintsExtension(true, undefined, true),
    new x509.KeyUsagesExtension(x509.KeyUsageFlags.keyCertSign | x509.KeyUsageFlags.cRLSign, true),
    ...(permittedDomain === undefined ? [] : [nameConstraints(permittedDomain)]),
  ];
}

/**
 * A domain without a leading dot also means all names below it. The excluded ranges are all addresses (RFC 5280, section
 * 4.2.1.10).
 */
function nameConstraints(domain: string): x509.Extension {
  const subtrees = (...names: ConstructorParameters<typeof GeneralName>[0][]) =>
    new GeneralSubtrees(names.map((name) => new GeneralSubtree({ base: new GeneralName(name) })));
  const value = new NameConstraints({
    permittedSubtrees: subtrees({ dNSName: domain }),
    excludedSubtrees: subtrees({ iPAddress: "0.0.0.0/0.0.0.0" }, { iPAddress: "::/::" }),
  });
  return new x509.Extension(id_ce_nameConstraints, true, AsnConvert.serialize(value));
}

function ofLeaf({ use, hosts = [] }: CertificateRequest): x509.Extension[] {
  const names = hosts.map((value): x509.JsonGeneralNames[number] => ({
    type: isIP(value) === 0 ? "dns" : "ip",
    value,
  }));
  return [
    new x509.BasicConstraintsExtension(false, undefined, true),
    new x509.KeyUsagesExtension(x509.KeyUsageFlags.digitalSignature, true),
    new x509.ExtendedKeyUsageExtension([x509.ExtendedKeyUsage[use === "server" ? "serverAuth" : "clientAuth"]]),
    ...(names.length > 0 ? [new x509.SubjectAlternativeNameExtension(names)] : []),
  ];
}
