import { expect, it } from "vitest";
import { ManualClock } from "../../test/setup/manual-clock.ts";
import { RametError } from "./errors.ts";
import { StaleOnErrorCache } from "./stale-on-error-cache.ts";

const unavailable = new RametError("Unavailable", "the API server does not respond", { retryable: true });

function world() {
  const clock = new ManualClock();
  const isRefusal = (value: string) => value === "no";
  const cache = new StaleOnErrorCache<string>({ clock, freshMilliseconds: 10, staleMilliseconds: 100, isRefusal });
  const asked: string[] = [];
  const answering = (value: string | RametError) => (): Promise<string> => {
    asked.push(value instanceof RametError ? value.code : value);
    return value instanceof RametError ? Promise.reject(value) : Promise.resolve(value);
  };
  return { clock, asked, get: (value: string | RametError, key = "k") => cache.get(key, answering(value)) };
}

it("asks once for concurrent calls, and again when the answer has expired", async () => {
  const { clock, asked, get } = world();
  expect(await Promise.all([get("one"), get("two"), get("other", "other key")])).toEqual(["one", "one", "other"]);
  clock.advance(9);
  expect(await get("two")).toBe("one");
  clock.advance(1);
  expect(await get("three")).toBe("three");
  expect(asked).toEqual(["one", "other", "three"]);
});

it("uses the last answer without delay while the server does not respond, up to the limit", async () => {
  const { clock, asked, get } = world();
  await get("one");
  clock.advance(50);
  expect(await get(unavailable)).toBe("one");
  expect(await get(unavailable)).toBe("one");
  expect(asked).toEqual(["one", "Unavailable"]);
  clock.advance(10);
  expect(await get("two")).toBe("two");
  clock.advance(101);
  await expect(get(unavailable)).rejects.toMatchObject({ code: "Unavailable" });
});

it("throws a refusal instead of using the last answer", async () => {
  const { clock, get } = world();
  await get("one");
  clock.advance(50);
  await expect(get(new RametError("Forbidden", "the gateway is not allowed to ask"))).rejects.toMatchObject({
    code: "Forbidden",
  });
});

it("keeps good answers however many refusals there are", async () => {
  const { asked, get } = world();
  await get("one");
  for (let other = 0; other < 20_000; other += 1) await get("no", `other ${other}`);
  expect(await get("two")).toBe("one");
  // Only the newest refusals are kept.
  expect(await get("no", "other 19999")).toBe("no");
  expect(await get("no", "other 0")).toBe("no");
  expect(asked).toHaveLength(20_002);
});

it("forgets an answer that has become a refusal", async () => {
  const { clock, get } = world();
  await get("one");
  clock.advance(10);
  expect(await get("no")).toBe("no");
  clock.advance(10);
  expect(await get(unavailable)).toBe("no");
});
