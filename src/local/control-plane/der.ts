/** ASN.1 values in DER, as far as certificates need them (ITU-T X.690). */
export const der = {
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

/** UTCTime up to 2049, GeneralizedTime after it: RFC 5280 asks for that. */
function time(date: Date): Buffer {
  const digits = date.toISOString().replace(/[-:T]|\.\d+/g, "");
  return date.getUTCFullYear() < 2050 ? tagged(0x17, Buffer.from(digits.slice(2))) : tagged(0x18, Buffer.from(digits));
}
