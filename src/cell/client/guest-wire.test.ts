import fc from "fast-check";
import { expect, it } from "vitest";
import { envelope, envelopes, type Envelope } from "./guest-wire.ts";

it("reads whole messages, wherever the network splits them", async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(fc.jsonValue()), fc.integer({ min: 1, max: 9 }), async (messages, size) => {
      const bytes = Buffer.concat([...messages.map(envelope), endOf({})]);
      const read = await all(split(bytes, size));
      expect(read.map(({ body }) => JSON.stringify(body))).toEqual([...messages, {}].map((m) => JSON.stringify(m)));
      expect(read.map(({ end }) => end)).toEqual([...messages.map(() => false), true]);
    }),
  );
});

it("fails with a retryable error if the stream breaks off", async () => {
  const bytes = envelope({ event: {} });
  await expect(all(split(bytes, 4))).rejects.toMatchObject({ code: "GuestUnreachable", retryable: true });
});

function endOf(body: unknown): Buffer {
  const bytes = envelope(body);
  bytes[0] = 2;
  return bytes;
}

async function* split(bytes: Buffer, size: number): AsyncGenerator<Buffer> {
  for (let at = 0; at < bytes.length; at += size) yield await Promise.resolve(bytes.subarray(at, at + size));
}

async function all(stream: AsyncIterable<Buffer>): Promise<Envelope[]> {
  const read: Envelope[] = [];
  for await (const message of envelopes(stream)) read.push(message);
  return read;
}
