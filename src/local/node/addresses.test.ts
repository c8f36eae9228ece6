import fc from "fast-check";
import { createServer } from "node:net";
import { once } from "node:events";
import { expect, it } from "vitest";
import { cellPort } from "../../api/wire/cell-api.ts";
import { candidate, chooseAddress } from "./start-pod.ts";

it("draws addresses from 127.64.0.0/10, without network and broadcast addresses", () => {
  fc.assert(
    fc.property(fc.uuid(), fc.nat(100), (uid, attempt) => {
      const [a, b, c, d] = candidate(uid, attempt).split(".").map(Number);
      expect(a).toBe(127);
      expect(b).toBeGreaterThanOrEqual(64);
      expect(b).toBeLessThanOrEqual(127);
      expect(c).toBeLessThanOrEqual(255);
      expect(d).toBeGreaterThan(0);
      expect(d).toBeLessThan(255);
    }),
  );
});

it("skips addresses of Pods and of other listening programs", async () => {
  const uid = "0b1c68a2-0c2d-4b2e-9707-cc5eedd72c3f";
  const other = createServer().listen(cellPort, candidate(uid, 1));
  await once(other, "listening");
  expect(await chooseAddress(uid, new Set([candidate(uid, 0)]))).toBe(candidate(uid, 2));
  other.close();
  await once(other, "close");
  expect(await chooseAddress(uid, new Set())).toBe(candidate(uid, 0));
});
