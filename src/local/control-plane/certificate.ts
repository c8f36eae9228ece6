import {
  createHash,
  createPrivateKey,
  createPublicKey,
  generateKeyPairSync,
  type KeyObject,
  randomBytes,
  sign,
  X509Certificate,
} from "node:crypto";
import { isIP, isIPv4 } from "node:net";

/** The ASN.1 values that certificates consist of, in DER (ITU-T X.690). */
const der = {
  sequence: (...parts: Buffer[]): Buffer => tagged(0x30, ...parts),
  set: (...parts: Buffer[]): Buffer => tagged(0x31, ...parts),
  boolean: (value: boolean): Buffer => tagged(0x01, Buffer.of(value ? 0xff : 0)),
  /** A non-negative integer, big-endian. */
  integer: (bytes: Buffer): Buffer =>
    tagged(0x02, (bytes[0] ?? 0) > 0x7f ? Buffer.concat([Buffer.of(0), bytes]) : bytes),
  bitString: (bytes: Buffer, unusedBits = 0): Buffer => tagged(0x03, Buffer.of(unusedBits), bytes),
  octetString: (bytes: Buffer): Buffer => tagged(0x04, bytes),
  utf8: (text: string): Buffer => tagged(0x0c, Buffer.from(text)),
  objectId,
  time,
  /** `[number]` around whole values. */
  explicit: (number: number, ...parts: Buffer[]): Buffer => tagged(0xa0 | number, ...parts),
  /** `[number]` in place of a primitive value's own tag. */
  implicit: (number: number, bytes: Buffer): Buffer => tagged(0x80 | number, bytes),
};

function tagged(tag: number, ...parts: Buffer[]): Buffer {
  const content = Buffer.concat(parts);
  return Buffer.concat([Buffer.of(tag), length(content.length), content]);
}

function length(bytes: number): Buffer {
  if (bytes < 0x80) return Buffer.of(bytes);
  if (bytes < 0x100) return Buffer.of(0x81, bytes);
  return Buffer.of(0x82, bytes >> 8, bytes & 0xff);
}

function objectId(dotted: string): Buffer {
  const [first = 0, second = 0, ...rest] = dotted.split(".").map(Number);
  return tagged(0x06, Buffer.from([first * 40 + second, ...rest.flatMap(base128)]));
}

function base128(arc: number): number[] {
  const digits = [arc & 0x7f];
  for (let left = arc >>> 7; left > 0; left >>>= 7) digits.unshift((left & 0x7f) | 0x80);
  return digits;
}

/** UTCTime up to 2049, GeneralizedTime after it (RFC 5280, section 4.1.2.5). */
function time(date: Date): Buffer {
  const digits = date.toISOString().replace(/[-:T]|\.\d+/g, "");
  return date.getUTCFullYear() < 2050 ? tagged(0x17, Buffer.from(digits.slice(2))) : tagged(0x18, Buffer.from(digits));
}

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
 * Issues an ECDSA P-256 certificate (RFC 5280), signed by `issuer` or self-signed.
 *
 * Node reads certificates but cannot create them. A library would add more code than these hundred lines, which cover
 * the kinds of certificate that a cluster needs.
 */
export function issueCertificate(request: CertificateRequest, issuer?: KeyPair): KeyPair {
  const pair = generateKeyPairSync("ec", { namedCurve: "P-256" });
  const issuerName = issuer === undefined ? name(request) : subjectOf(issuer.certificate);
  const issuerKey = issuer === undefined ? pair.privateKey : createPrivateKey(issuer.key);
  const toSign = der.sequence(
    der.explicit(0, der.integer(Buffer.of(2))),
    der.integer(serialNumber()),
    ecdsaWithSha256,
    issuerName,
    validity(request),
    name(request),
    pair.publicKey.export({ type: "spki", format: "der" }),
    der.explicit(3, der.sequence(...extensions(request), ...keyIdentifiers(request, pair.publicKey, issuerKey))),
  );
  const certificate = der.sequence(toSign, ecdsaWithSha256, der.bitString(sign("sha256", toSign, issuerKey)));
  return { certificate: pem("CERTIFICATE", certificate), key: pemOfKey(pair.privateKey) };
}

const ecdsaWithSha256 = der.sequence(der.objectId("1.2.840.10045.4.3.2"));

function serialNumber(): Buffer {
  const bytes = randomBytes(16);
  // Positive and without a leading zero octet, as DER requires.
  bytes.writeUInt8((bytes.readUInt8(0) & 0x3f) | 0x40, 0);
  return bytes;
}

function validity(request: CertificateRequest): Buffer {
  const day = 86_400_000;
  // Starts a day early, because clocks of two machines differ.
  return der.sequence(
    der.time(new Date(request.now.getTime() - day)),
    der.time(new Date(request.now.getTime() + request.validDays * day)),
  );
}

function name(request: CertificateRequest): Buffer {
  const attribute = (id: string, text: string): Buffer => der.set(der.sequence(der.objectId(id), der.utf8(text)));
  return der.sequence(
    ...(request.organizations ?? []).map((organization) => attribute("2.5.4.10", organization)),
    attribute("2.5.4.3", request.commonName),
  );
}

/** The encoded subject of a certificate. Issuer and subject must match byte by byte. */
function subjectOf(certificate: string): Buffer {
  const raw = new X509Certificate(certificate).raw;
  const toSign = children(children(raw)[0] ?? raw);
  const subject = toSign[5];
  if (subject === undefined) throw new TypeError("the issuer's certificate has no subject");
  return subject;
}

/** The values inside a constructed DER value. */
function children(value: Buffer): Buffer[] {
  const found: Buffer[] = [];
  let at = header(value, 0).size;
  while (at < value.length) {
    const { size, content } = header(value, at);
    found.push(value.subarray(at, at + size + content));
    at += size + content;
  }
  return found;
}

function header(value: Buffer, at: number): { size: number; content: number } {
  const first = value.readUInt8(at + 1);
  if (first < 0x80) return { size: 2, content: first };
  const octets = first & 0x7f;
  return { size: 2 + octets, content: value.readUIntBE(at + 2, octets) };
}

function extension(id: string, critical: boolean, value: Buffer): Buffer {
  return der.sequence(der.objectId(id), ...(critical ? [der.boolean(true)] : []), der.octetString(value));
}

/** Python requires both since 3.13. */
function keyIdentifiers({ use }: CertificateRequest, own: KeyObject, issuerKey: KeyObject): Buffer[] {
  const identifier = (key: KeyObject): Buffer => {
    const point = children(key.export({ type: "spki", format: "der" }))[1] ?? Buffer.alloc(0);
    // The content of the bit string without the number of its unused bits (RFC 5280, section 4.2.1.2).
    return createHash("sha1")
      .update(point.subarray(header(point, 0).size + 1))
      .digest();
  };
  return [
    extension("2.5.29.14", false, der.octetString(identifier(own))),
    ...(use === "authority"
      ? []
      : [extension("2.5.29.35", false, der.sequence(der.implicit(0, identifier(createPublicKey(issuerKey)))))]),
  ];
}

/**
 * A domain without a leading dot also means all names below it. The excluded ranges are all addresses (RFC 5280, section
 * 4.2.1.10).
 */
function nameConstraints(domain: string): Buffer {
  const all = [8, 32].map((bytes) => der.sequence(der.implicit(7, Buffer.alloc(bytes))));
  return der.sequence(der.explicit(0, der.sequence(generalName(domain))), der.explicit(1, ...all));
}

function extensions(request: CertificateRequest): Buffer[] {
  if (request.use === "authority") {
    const { permittedDomain } = request;
    return [
      extension("2.5.29.19", true, der.sequence(der.boolean(true))),
      extension("2.5.29.15", true, der.bitString(Buffer.of(0b0000_0110), 1)),
      ...(permittedDomain === undefined ? [] : [extension("2.5.29.30", true, nameConstraints(permittedDomain))]),
    ];
  }
  const purpose = request.use === "server" ? "1.3.6.1.5.5.7.3.1" : "1.3.6.1.5.5.7.3.2";
  const hosts = (request.hosts ?? []).map(generalName);
  return [
    extension("2.5.29.19", true, der.sequence()),
    extension("2.5.29.15", true, der.bitString(Buffer.of(0b1000_0000), 7)),
    extension("2.5.29.37", false, der.sequence(der.objectId(purpose))),
    ...(hosts.length > 0 ? [extension("2.5.29.17", false, der.sequence(...hosts))] : []),
  ];
}

function generalName(host: string): Buffer {
  if (isIPv4(host)) return der.implicit(7, Buffer.from(host.split(".").map(Number)));
  if (isIP(host) !== 0) return der.implicit(7, ipv6(host));
  return der.implicit(2, Buffer.from(host));
}

function ipv6(address: string): Buffer {
  const [head = "", tail] = address.split("::");
  const groups = (text: string): number[] => (text === "" ? [] : text.split(":").map((group) => parseInt(group, 16)));
  const before = groups(head);
  const after = tail === undefined ? [] : groups(tail);
  const middle = new Array<number>(8 - before.length - after.length).fill(0);
  return Buffer.from([...before, ...middle, ...after].flatMap((group) => [group >> 8, group & 0xff]));
}

function pem(label: string, bytes: Buffer): string {
  const lines = bytes.toString("base64").match(/.{1,64}/g) ?? [];
  return `-----BEGIN ${label}-----\n${lines.join("\n")}\n-----END ${label}-----\n`;
}

function pemOfKey(key: KeyObject): string {
  return key.export({ type: "pkcs8", format: "pem" }).toString();
}
