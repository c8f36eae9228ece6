import { expect, it } from "vitest";
import { defaultQuota, parseQuota, quotaExample, quotaOf } from "./namespace-quota.ts";

const of = (text: string) => quotaOf({ name: "a", annotations: { "ramet.dev/quota": text } });

it("reads the limits of a namespace, and takes the defaults for others", () => {
  expect(quotaOf({ name: "a" })).toEqual(defaultQuota);
  expect(of(quotaExample)).toEqual({ storeBytes: 100 * 2 ** 30, checkpoints: 500, builds: 4, fetches: 2 });
  expect(of(" storeBytes=1.5k , builds=0, checkpoints=unlimited ")).toEqual({
    storeBytes: 1500,
    checkpoints: Infinity,
    builds: 0,
    fetches: defaultQuota.fetches,
  });
});

it.each(["checkpoint=5", "builds", "builds=-1", "builds=1.5", "storeBytes=1x", "storeBytes=-1", "builds=1,builds=2"])(
  "does not guess what %s means",
  (text) => {
    expect(() => of(text)).toThrow(/ramet\.dev\/quota of the namespace a has an invalid item/);
  },
);

it("names the flag of an invalid limit", () => {
  const names = { storeBytes: "--bytes", checkpoints: "--checkpoints", builds: "--builds", fetches: "--fetches" };
  expect(parseQuota({ storeBytes: "1Gi", builds: "unlimited" }, names)).toEqual({
    storeBytes: 2 ** 30,
    builds: Infinity,
  });
  expect(() => parseQuota({ builds: "many" }, names)).toThrow('--builds is "many", not a whole number or unlimited');
});
