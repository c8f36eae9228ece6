import {
  type KeyObject,
  createCipheriv,
  createDecipheriv,
  createHash,
  createPrivateKey,
  createPublicKey,
  diffieHellman,
  generateKeyPairSync,
  hkdfSync,
  randomBytes,
  timingSafeEqual,
} from "node:crypto";

const algorithm = "aes-256-gcm";
const nonceBytes = 12;
const tagBytes = 16;

/**
 * Encrypts a few bytes with AES-256-GCM: the result is a random nonce, the ciphertext and the tag.
 * @param key 32 bytes
 * @param identity what the bytes belong to, in clear; they can only be decrypted as belonging to it
 */
export function encryptBytes(key: Buffer, plain: Buffer, identity: string): Buffer {
  const nonce = randomBytes(nonceBytes);
  const cipher = createCipheriv(algorithm, key, nonce, { authTagLength: tagBytes });
  cipher.setAAD(Buffer.from(identity));
  return Buffer.concat([nonce, cipher.update(plain), cipher.final(), cipher.getAuthTag()]);
}

/** Reverses {@link encryptBytes}. @throws Error if the bytes were changed, or encrypted with another key or for another identity */
export function decryptBytes(key: Buffer, encrypted: Buffer, identity: string): Buffer {
  const end = encrypted.length - tagBytes;
  const decipher = createDecipheriv(algorithm, key, encrypted.subarray(0, nonceBytes), { authTagLength: tagBytes });
  decipher.setAAD(Buffer.from(identity));
  decipher.setAuthTag(encrypted.subarray(end));
  return Buffer.concat([decipher.update(encrypted.subarray(nonceBytes, end)), decipher.final()]);
}

const keyBytes = 32;

/** The bytes of PKCS #8 before the 32 bytes of a private key of X25519 (RFC 8410). */
const privatePrefix = Buffer.from("302e020100300506032b656e04220420", "hex");
/** The bytes of SubjectPublicKeyInfo before the 32 bytes of a public key. */
const publicPrefix = Buffer.from("302a300506032b656e032100", "hex");

/** A private key of X25519 that follows from a secret and a purpose. */
export function sealingKey(secret: Buffer, purpose: string): KeyObject {
  const bytes = derivedBytes(secret, purpose);
  return createPrivateKey({ key: Buffer.concat([privatePrefix, bytes]), format: "der", type: "pkcs8" });
}

/** 32 bytes that follow from a secret and a purpose. */
export function derivedBytes(secret: Buffer, purpose: string): Buffer {
  return Buffer.from(hkdfSync("sha256", secret, Buffer.alloc(0), purpose, keyBytes));
}

/** The 32 bytes of the public key. */
export function publicBytes(key: KeyObject): Buffer {
  return createPublicKey(key).export({ format: "der", type: "spki" }).subarray(publicPrefix.length);
}

/**
 * Encrypts a few bytes for the owner of a private key: X25519 with a key for once, HKDF and AES-256-GCM.
 * @param identity what the bytes belong to, in clear; they can only be opened as belonging to it
 */
export function sealBytes(recipient: Buffer, plain: Buffer, identity: string): Buffer {
  const publicKey = publicKeyOf(recipient);
  const once = generateKeyPairSync("x25519");
  const sender = publicBytes(once.privateKey);
  const shared = diffieHellman({ privateKey: once.privateKey, publicKey });
  return Buffer.concat([sender, encryptBytes(keyOf(shared, sender, recipient), plain, identity)]);
}

/** Reverses {@link sealBytes}. @throws Error if the bytes were changed, or sealed for another key or identity */
export function openBytes(privateKey: KeyObject, sealed: Buffer, identity: string): Buffer {
  const sender = sealed.subarray(0, keyBytes);
  const shared = diffieHellman({ privateKey, publicKey: publicKeyOf(sender) });
  return decryptBytes(keyOf(shared, sender, publicBytes(privateKey)), sealed.subarray(keyBytes), identity);
}

function keyOf(shared: Buffer, sender: Buffer, recipient: Buffer): Buffer {
  return derivedBytes(shared, `ramet.dev/sealed-box/${sender.toString("hex")}/${recipient.toString("hex")}`);
}

function publicKeyOf(bytes: Buffer): KeyObject {
  return createPublicKey({ key: Buffer.concat([publicPrefix, bytes]), format: "der", type: "spki" });
}

/** Compares secrets in a time that reveals nothing about them, not even the length. */
export function equalSecrets(one: string, other: string): boolean {
  const [first, second] = [one, other].map((text) => createHash("sha256").update(text).digest()) as [Buffer, Buffer];
  return timingSafeEqual(first, second);
}
