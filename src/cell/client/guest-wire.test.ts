import fc from "fast-check";
import { expect, test } from "vitest";
import { envelope, envelopes, type Envelope } from "./guest-wire.ts";

test("messages arrive whole, wherever the network cuts them", async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(fc.jsonValue()), fc.integer({ min: 1, max: 9 }), async (messages, size) => {
      const bytes = Buffer.concat([...messages.map(envelope), endOf({})]);
      const read = await all(cut(bytes, size));
      expect(read.map(({ body }) => JSON.stringify(body))).toEqual([...messages, {}].map((m) => JSON.stringify(m)));
      expect(read.map(({ end }) => end)).toEqual([...messages.map(() => false), true]);
    }),
  );
});

test("a stream that breaks off says that it can be taken up again", async () => {
  const bytes = envelope({ event: {} });
  await expect(all(cut(bytes, 4))).rejects.toMatchObject({ code: "GuestUnreachable", retryable: true });
});

function endOf(body: unknown): Buffer {
  const bytes = envelope(body);
  bytes[0] = 2;
  return bytes;
}

async function* cut(bytes: Buffer, size: number): AsyncGenerator<Buffer> {
  for (let at = 0; at < bytes.length; at += size) yield await Promise.resolve(bytes.subarray(at, at + size));
}

async function all(stream: AsyncIterable<Buffer>): Promise<Envelope[]> {
  const read: Envelope[] = [];
  for await (const message of envelopes(stream)) read.push(message);
  return read;
}
