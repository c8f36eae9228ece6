import { createHash } from "node:crypto";
import { once } from "node:events";
import { createServer, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { text } from "node:stream/consumers";
import { afterEach, beforeEach, expect, it } from "vitest";
import { ManualClock } from "../../../../test/setup/manual-clock.ts";
import { defaultQuota } from "../../../api/quota/namespace-quota.ts";
import { FetchTurns } from "./fetch-turns.ts";
import { publicFetch } from "./fetch-content.ts";

/** The server answers a request when the test says so. */
let held: ServerResponse[];
let server: ReturnType<typeof createServer>;
beforeEach(async () => {
  held = [];
  server = createServer((_, response) => held.push(response));
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
});
afterEach(() => {
  server.closeAllConnections();
  server.close();
});

const { signal } = new AbortController();
const sha256 = createHash("sha256").update("content").digest("hex");
const fetch = publicFetch({ isAllowed: () => true });

function openTurns(fetches = 1) {
  const clock = new ManualClock();
  const limits = { fetches };
  const turns = new FetchTurns({ fetch, quotas: { of: () => ({ ...defaultQuota, ...limits }) }, clock });
  const changed: string[] = [];
  const get = (attempt: string) => {
    const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/${attempt}`;
    return turns.fetch({ namespace: "t", url, sha256, attempt, onWait: () => changed.push(attempt), signal });
  };
  const answer = async (at: number): Promise<void> => {
    await expect.poll(() => held.length).toBe(at + 1);
    held[at]?.end("content");
  };
  return { turns, clock, limits, changed, get, answer };
}

it("lets a fetch wait until the one before it has been read, and names the quota", async () => {
  const { turns, changed, get, answer } = openTurns();
  const first = get("first");
  const second = get("second");
  expect(turns.whyWaiting("t", "first")).toBeUndefined();
  expect(turns.whyWaiting("t", "second")).toBe(
    "waits for another fetch: the namespace t uses 1 of 1 of its quota fetches; an administrator can raise fetches in the annotation ramet.dev/quota of the namespace",
  );
  await answer(0);
  const content = await first;
  expect(held).toHaveLength(1);
  expect(await text(content)).toBe("content");
  await answer(1);
  expect(await text(await second)).toBe("content");
  expect(changed).toEqual(["second", "second"]);
  expect(turns.whyWaiting("t", "second")).toBeUndefined();
});

it("starts a waiting fetch when the quota is raised", async () => {
  const { turns, limits, get, answer } = openTurns(0);
  const first = get("first");
  expect(turns.whyWaiting("t", "first")).toContain("uses 0 of 0 of its quota fetches");
  limits.fetches = 1;
  turns.quotaChanged();
  await answer(0);
  expect(await text(await first)).toBe("content");
});

it("ends a fetch from a server that never responds, and one that nobody reads, after the time for each", async () => {
  const { clock, get, answer } = openTurns();
  const silent = get("silent");
  const unread = get("unread");
  const third = get("third");
  await expect.poll(() => held.length).toBe(1);
  clock.advance(600_000);
  await expect(silent).rejects.toMatchObject({ code: "Timeout" });
  await answer(1);
  const content = await unread;
  clock.advance(600_000);
  await answer(2);
  expect(content.errored).toMatchObject({ code: "Timeout" });
  expect(await text(await third)).toBe("content");
});
