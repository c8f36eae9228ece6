import fc from "fast-check";
import { expect, it } from "vitest";
import { acceptsDigest, limitsOfKey, unexpired, userOfKey } from "./api-key-rules.ts";

const digestOf = (digit: string) => `sha256:${digit.repeat(64)}`;
const now = new Date("2030-01-01T00:00:00Z");
const current = { digest: digestOf("a") };

it("accepts a digest until it expires", () => {
  const expiring = { digest: digestOf("b"), expiresAt: "2030-01-01T00:00:00Z" };
  const spec = { digests: [current, expiring] };
  const accepted = (milliseconds: number) =>
    acceptsDigest(spec, expiring.digest, new Date(now.getTime() + milliseconds));
  expect([accepted(-1), accepted(0), accepted(1)]).toEqual([true, false, false]);
  expect(acceptsDigest(spec, current.digest, new Date("2999-01-01"))).toBe(true);
});

it.each(["", digestOf("c"), digestOf("a").slice(0, -1), `${digestOf("a")}a`, "a".repeat(64)])(
  "does not accept %j",
  (digest) => {
    expect(acceptsDigest({ digests: [current] }, digest, now)).toBe(false);
  },
);

it.each([
  ["2030-01-01t00:00:01z", true],
  ["2030-01-01T08:00:01+08:00", true],
  ["2030-01-01T08:00:00+08:00", false],
  ["soon", false],
])("reads the time %s in every form that the API server stores, and takes others as passed", (expiresAt, lasts) => {
  expect(unexpired([{ ...current, expiresAt }], now)).toHaveLength(lasts ? 1 : 0);
});

it("accepts exactly the unexpired digests", () => {
  const seconds = fc.option(fc.integer({ min: -5, max: 5 }), { nil: undefined });
  fc.assert(
    fc.property(fc.array(seconds, { maxLength: 4 }), (lives) => {
      const digests = lives.map((life, index) => ({
        digest: digestOf(String(index)),
        ...(life !== undefined && { expiresAt: new Date(now.getTime() + life * 1000).toISOString() }),
      }));
      const accepted = digests.filter(({ digest }) => acceptsDigest({ digests }, digest, now));
      expect(accepted).toEqual(unexpired(digests, now));
      expect(accepted).toHaveLength(lives.filter((life) => life === undefined || life > 0).length);
    }),
  );
});

it("limits nothing by default, and reads quantities", () => {
  expect(limitsOfKey({})).toEqual({
    sandboxes: Infinity,
    requestsPerSecond: 1000,
    concurrentRequests: 1_000,
    bytesInFlight: 64 * 2 ** 20,
    snapshotBytes: Infinity,
  });
  expect(limitsOfKey({ limits: { sandboxes: 0, bytesInFlight: "1Mi", snapshotBytes: "1.5Gi" } })).toEqual({
    sandboxes: 0,
    requestsPerSecond: 1000,
    concurrentRequests: 1_000,
    bytesInFlight: 2 ** 20,
    snapshotBytes: 1.5 * 2 ** 30,
  });
  expect(limitsOfKey({ limits: { snapshotBytes: 7 } }).snapshotBytes).toBe(7);
});

it("acts as the service account in the key's namespace", () => {
  const metadata = { name: "ci", namespace: "team-a", uid: "u", resourceVersion: "1", creationTimestamp: "" };
  expect(userOfKey({ metadata, spec: { serviceAccountName: "agents", digests: [current] } })).toEqual({
    user: "system:serviceaccount:team-a:agents",
    groups: ["system:serviceaccounts", "system:serviceaccounts:team-a", "system:authenticated"],
  });
});
