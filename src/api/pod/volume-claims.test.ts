import { expect, it } from "vitest";
import { volumeClaims } from "./volume-claims.ts";

it("lists the volumes of a Pod that mount claims, also ephemeral ones", () => {
  const volumes = [
    { name: "scratch", emptyDir: {} },
    { name: "home", persistentVolumeClaim: { claimName: "home-a" } },
    { name: "again", persistentVolumeClaim: { claimName: "home-a" } },
    { name: "cache", ephemeral: { volumeClaimTemplate: { spec: {} } } },
  ];
  expect(volumeClaims(volumes, "a")).toEqual([
    { volume: "home", claim: "home-a" },
    { volume: "again", claim: "home-a" },
    { volume: "cache", claim: "a-cache" },
  ]);
});
