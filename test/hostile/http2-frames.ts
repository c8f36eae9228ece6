/** Frames of HTTP/2 (RFC 9113), for clients and servers that break its rules. */
export const preface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

export const frameTypes = {
  data: 0,
  headers: 1,
  reset: 3,
  settings: 4,
  pushPromise: 5,
  ping: 6,
  goaway: 7,
  windowUpdate: 8,
  continuation: 9,
} as const;

export const flags = { endStream: 1, ack: 1, endHeaders: 4 } as const;

export interface Frame {
  flags?: number;
  stream?: number;
  payload?: Buffer;
}

export function frame(type: keyof typeof frameTypes, { flags: set = 0, stream = 0, payload }: Frame = {}): Buffer {
  const body = payload ?? Buffer.alloc(0);
  const head = Buffer.alloc(9);
  head.writeUIntBE(body.length, 0, 3);
  head.writeUInt8(frameTypes[type], 3);
  head.writeUInt8(set, 4);
  head.writeUInt32BE(stream, 5);
  return Buffer.concat([head, body]);
}

/** A number in the payload of a RST_STREAM or WINDOW_UPDATE frame. */
export function uint32(value: number): Buffer {
  const bytes = Buffer.alloc(4);
  bytes.writeUInt32BE(value);
  return bytes;
}

/** Headers as literals without an index (RFC 7541, 6.2.2), of any length and content. */
export function literals(headers: readonly (readonly [name: string, value: string])[]): Buffer {
  return Buffer.concat(headers.flatMap(([name, value]) => [Buffer.from([0]), text(name), text(value)]));
}

function text(value: string): Buffer {
  const bytes = Buffer.from(value, "latin1");
  return Buffer.concat([length(bytes.length), bytes]);
}

/** An integer with a prefix of 7 bits (RFC 7541, 5.1). */
function length(value: number): Buffer {
  if (value < 127) return Buffer.from([value]);
  const bytes = [127];
  for (let rest = value - 127; ; rest >>>= 7) {
    if (rest < 128) return Buffer.from([...bytes, rest]);
    bytes.push((rest & 127) | 128);
  }
}

/** Reads whole frames from the start of some bytes. */
export function framesIn(bytes: Buffer): { type: number; flags: number; stream: number; payload: Buffer }[] {
  const frames = [];
  for (let at = 0; at + 9 <= bytes.length;) {
    const end = at + 9 + bytes.readUIntBE(at, 3);
    const [type, set, stream] = [bytes.readUInt8(at + 3), bytes.readUInt8(at + 4), bytes.readUInt32BE(at + 5)];
    if (end <= bytes.length) frames.push({ type, flags: set, stream, payload: bytes.subarray(at + 9, end) });
    at = end;
  }
  return frames;
}
