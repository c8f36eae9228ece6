import { expect, it } from "vitest";
import type { ApiCaller } from "../transport.ts";
import { type Preparation, preparationAnnotation, waitBesidesPreparation } from "./preparation.ts";

const start = Date.parse("2026-11-27T12:00:00Z");
const at = (seconds: number): string => new Date(start + seconds * 1000).toISOString();

/** Waits 600 s for what appears after `seconds`, on a cluster with this preparation at that time. */
async function waitFor(seconds: number, preparation: (second: number) => Preparation | undefined): Promise<number> {
  let now = 0;
  const annotations = () => ({ [preparationAnnotation]: JSON.stringify(preparation(now)) });
  const metadata = () => ({ name: "d", uid: "u", resourceVersion: "1", annotations: annotations() });
  const client = {
    namespace: "default",
    clock: { now: () => new Date(start + now * 1000) },
    random: () => 0,
    request: () => Promise.resolve({ metadata: {}, items: [{ metadata: metadata() }] }),
  } as unknown as ApiCaller;
  const found = await waitBesidesPreparation(client, 600_000, (milliseconds) => {
    const end = now + milliseconds / 1000;
    now = Math.min(end, Math.max(now, seconds));
    return Promise.resolve(seconds <= end ? true : undefined);
  });
  return found === true ? now : -now;
}

it("does not count the time in which a local cluster prepares the programs of snapshots", async () => {
  const running = (second: number) => ({ since: at(100), ...(second >= 1_180 && { until: at(1_180) }) });
  expect(await waitFor(1_200, running)).toBe(1_200);
  // 100 s before the preparation and 500 s after it.
  expect(await waitFor(5_000, running)).toBe(-1_680);
});

it("waits at most one hour longer for a preparation that does not end", async () => {
  expect(await waitFor(10_000, () => ({ since: at(100) }))).toBe(-4_200);
});

it("counts the time without a preparation, and after one that failed", async () => {
  expect(await waitFor(5_000, () => undefined)).toBe(-600);
  expect(await waitFor(5_000, () => ({ since: at(-500), until: at(-100) }))).toBe(-600);
  expect(await waitFor(5_000, () => ({ since: at(100), failure: "Go is not installed" }))).toBe(-600);
});
