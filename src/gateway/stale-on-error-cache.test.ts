import { expect, it } from "vitest";
import { ManualClock } from "../../test/setup/manual-clock.ts";
import { RametError } from "../base/errors.ts";
import { StaleOnErrorCache } from "./stale-on-error-cache.ts";

const unavailable = new RametError("Unavailable", "the API server is away", { retryable: true });

function world() {
  const clock = new ManualClock();
  const remembered = new StaleOnErrorCache<string>({ clock, freshMilliseconds: 10, staleMilliseconds: 100 });
  const asked: string[] = [];
  const answering = (value: string | RametError) => (): Promise<string> => {
    asked.push(value instanceof RametError ? value.code : value);
    return value instanceof RametError ? Promise.reject(value) : Promise.resolve(value);
  };
  return { clock, asked, get: (value: string | RametError, key = "k") => remembered.get(key, answering(value)) };
}

it("asks once for all that come at once, and again when an answer is not fresh any more", async () => {
  const { clock, asked, get } = world();
  expect(await Promise.all([get("one"), get("two"), get("other", "other key")])).toEqual(["one", "one", "other"]);
  clock.advance(9);
  expect(await get("two")).toBe("one");
  clock.advance(1);
  expect(await get("three")).toBe("three");
  expect(asked).toEqual(["one", "other", "three"]);
});

it("goes on with the last answer while nobody answers, for so long, and lets nobody wait meanwhile", async () => {
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

it("keeps no answer that was a no to the question itself", async () => {
  const { clock, get } = world();
  await get("one");
  clock.advance(50);
  await expect(get(new RametError("Forbidden", "the gateway may not ask"))).rejects.toMatchObject({
    code: "Forbidden",
  });
});
