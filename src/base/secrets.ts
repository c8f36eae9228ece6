import { createHash, timingSafeEqual } from "node:crypto";

/** Compares secrets in a time that reveals nothing about them, not even the length. */
export function equalSecrets(one: string, other: string): boolean {
  const [first, second] = [one, other].map((text) => createHash("sha256").update(text).digest()) as [Buffer, Buffer];
  return timingSafeEqual(first, second);
}
