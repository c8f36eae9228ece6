import { buffer } from "node:stream/consumers";
import { Readable } from "node:stream";
import { expect, it } from "vitest";
import { systemClock } from "../../../base/clock.ts";
import type { GuestClient } from "../../../cell/client/guest-client.ts";
import { EntriesAnswer } from "../../../cell/client/guest-wire.ts";
import { zipOf } from "./archive.ts";

const { signal } = new AbortController();

/** Stands in for a guest that lists these entries in each directory. */
function archive(listed: object[]): Promise<Buffer> {
  const { entries } = EntriesAnswer.parse({ entries: listed });
  const guest = { list: () => Promise.resolve(entries), readFile: () => Promise.resolve(Readable.from(["content"])) };
  return buffer(zipOf(guest as unknown as GuestClient, { path: "/workspace", entries, clock: systemClock, signal }));
}

const file = { name: "a", type: "FILE_TYPE_FILE" };

it.each(["1960-01-01T00:00:00Z", "-271821-04-20T00:00:00Z", "+275760-09-13T00:00:00Z", "yesterday"])(
  "archives a file of the time %s",
  async (modifiedTime) => {
    const zip = await archive([{ ...file, modifiedTime }]);
    // The end of the zip file, after the central directory with the times.
    expect(zip.includes("PK\x05\x06")).toBe(true);
  },
);

it.each([
  ["has itself as an entry", [{ name: "a", type: "FILE_TYPE_DIRECTORY" }]],
  ["has very long names", Array.from({ length: 2_000 }, () => ({ ...file, name: "a".repeat(60_000) }))],
  ["leads out of the archive", [{ ...file, name: "../../etc/passwd" }]],
  ["leads to the root", [{ ...file, name: "/../etc/passwd" }]],
])("breaks off for a directory that %s", async (_, entries) => {
  await expect(archive(entries)).rejects.toThrow();
});
