import { expect, it } from "vitest";
import { ByteBudget } from "./byte-budget.ts";

const refusedAs = (code: string) => expect.objectContaining({ code }) as unknown;
const key = { name: "team-a/ci", bytes: 60 };

it("limits the bytes of a key, of an address and of all clients", () => {
  const budget = new ByteBudget({ all: 200, ofAddress: 120 });
  const hold = (address: string, name?: string) => (bytes: number) => {
    const held = budget.open({ address, ...(name !== undefined && { key: { name, bytes: 60 } }) });
    held.hold(bytes);
    return held;
  };
  const first = hold("a", "k1")(50);
  expect(() => hold("b", "k1")(20)).toThrow(refusedAs("TooManyRequests"));
  hold("a", "k2")(40);
  // Keys of one gateway take nothing from its other clients.
  const stranger = hold("a")(100);
  expect(() => hold("a")(30)).toThrow(refusedAs("TooManyRequests"));
  expect(() => hold("c")(20)).toThrow(refusedAs("Unavailable"));
  stranger.end();
  first.end();
  hold("b", "k1")(30);
});

it("keeps what it holds when more does not fit, and nothing after its end", () => {
  const budget = new ByteBudget({ all: 100, ofAddress: 100 });
  const [held, other] = [budget.open({ address: "a", key }), budget.open({ address: "a", key })];
  held.hold(40);
  expect(() => {
    other.hold(30);
  }).toThrow(refusedAs("TooManyRequests"));
  held.add(10);
  expect(() => {
    held.hold(61);
  }).toThrow(refusedAs("InvalidArgument"));
  expect(() => {
    other.hold(11);
  }).toThrow();
  held.end();
  held.end();
  held.hold(50);
  other.hold(60);
});

it("always holds fewer bytes, also when the limit of the key is a higher one for the others", () => {
  const budget = new ByteBudget({ all: 100, ofAddress: 100 });
  const low = budget.open({ address: "a", key: { name: "k", bytes: 10 } });
  low.hold(10);
  const high = budget.open({ address: "a", key: { name: "k", bytes: 60 } });
  high.hold(50);
  low.hold(5);
  expect(() => {
    low.hold(6);
  }).toThrow(refusedAs("TooManyRequests"));
  expect(() => {
    high.add(6);
  }).toThrow(refusedAs("TooManyRequests"));
  high.add(5);
  low.end();
  high.add(5);
});
