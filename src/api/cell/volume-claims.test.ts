import { expect, it } from "vitest";
import { volumeClaims } from "./volume-claims.ts";

it("names the claims of a Pod's volumes, also of ephemeral ones, each once", () => {
  const volumes = [
    { name: "scratch", emptyDir: {} },
    { name: "home", persistentVolumeClaim: { claimName: "home-a" } },
    { name: "again", persistentVolumeClaim: { claimName: "home-a" } },
    { name: "cache", ephemeral: { volumeClaimTemplate: { spec: {} } } },
  ];
  expect(volumeClaims(volumes, "a")).toEqual(["home-a", "a-cache"]);
});
