import { createCipheriv, createDecipheriv, randomBytes } from "node:crypto";

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
