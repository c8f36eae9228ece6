import { describe, expect, it } from "vitest";
import type { CheckpointPart } from "../../api/kinds/checkpoint.ts";
import { RametError } from "../../base/errors.ts";
import { inPlaceProblem, noRestoredVolumes, restoredVolumes, rolledBackVolumes } from "./restored-volumes.ts";

const home = { volume: "home", claim: "home-a" };
const data = { volume: "data", claim: "team-data" };
const cache = { volume: "cache", claim: "a-cache" };
const checkpoint = { id: "c-1", missing: [home, data, cache], captured: [] };
const named = (name: string, claimName: string) => ({ name, persistentVolumeClaim: { claimName } });
const clone = {
  name: "b",
  volumes: [named("home", "home-b"), named("data", "team-data"), { name: "cache", ephemeral: {} }, { name: "tmp" }],
};
const part = (volume: string): CheckpointPart => ({
  backend: "csi",
  handle: "h",
  contents: ["volumes"],
  cutAt: "2026-11-24T00:00:00Z",
  sizeBytes: 1,
  consistency: "crash",
  volume: { volume, claim: `${volume}-a`, snapshot: "s", driver: "d", accessModes: [] },
});
const codeOf = (run: () => unknown): string => {
  try {
    run();
    return "none";
  } catch (error) {
    return RametError.from(error).code;
  }
};

describe("restoredVolumes", () => {
  it("needs a choice only if data is missing", () => {
    expect(codeOf(() => restoredVolumes(checkpoint, undefined, clone))).toBe("VolumesNotCaptured");
    expect(restoredVolumes({ id: "c-1", missing: [], captured: [] }, undefined, clone).claims.size).toBe(0);
  });

  it("replaces the source's claims that the template names with Empty; all others are new for each sandbox anyway", () => {
    const { claims, copies, shared } = restoredVolumes(checkpoint, "Empty", clone);
    expect([[...claims], [...copies], shared]).toEqual([[["data", "data-b"]], [["data-b", "team-data"]], []]);
  });

  it("mounts all claims of the source with Shared, also those of ephemeral volumes", () => {
    const { claims, shared } = restoredVolumes(checkpoint, "Shared", clone);
    expect(Object.fromEntries(claims)).toEqual({ home: "home-a", data: "team-data", cache: "a-cache" });
    expect(shared).toEqual(["home-a", "team-data", "a-cache"]);
  });

  it("keeps a claim that the clone's own template names and that is not the source's", () => {
    const own = { name: "b", volumes: [named("data", "other-data")] };
    for (const choice of ["Empty", "Shared"] as const)
      expect(restoredVolumes(checkpoint, choice, own).claims.size).toBe(0);
  });

  it("refuses to share a volume that the source does not have: it would silently be empty", () => {
    const own = { name: "b", volumes: [named("work", "work-b")] };
    expect(codeOf(() => restoredVolumes(checkpoint, "Shared", own))).toBe("InvalidArgument");
  });
});

describe("restoredVolumes of a checkpoint with volumes", () => {
  const all = { id: "c-1", missing: [], captured: [part("home"), part("data"), part("cache")] };

  it("gives a clone its own claims with the captured data, also where the template names a claim", () => {
    const { claims, filled, copies, shared } = restoredVolumes(all, undefined, clone);
    expect(Object.fromEntries(claims)).toEqual({ data: "data-b", cache: "cache-b" });
    expect([...filled.keys()]).toEqual(["home-b", "data-b", "cache-b"]);
    expect([copies.size, shared]).toEqual([0, []]);
  });

  it("needs a choice for the other volumes only", () => {
    const some = { id: "c-1", missing: [data], captured: [part("home")] };
    expect(codeOf(() => restoredVolumes(some, undefined, clone))).toBe("VolumesNotCaptured");
    const { claims, filled, copies } = restoredVolumes(some, "Empty", clone);
    expect([[...claims], [...filled.keys()], [...copies]]).toEqual([
      [["data", "data-b"]],
      ["home-b"],
      [["data-b", "team-data"]],
    ]);
  });

  it("refuses a clone without a volume for the data", () => {
    expect(codeOf(() => restoredVolumes(all, undefined, { name: "b", volumes: [] }))).toBe("TemplateMismatch");
  });

  it("gives a rollback new claims, and keeps those of the other volumes", () => {
    const some = { id: "c-1", missing: [], captured: [part("home")] };
    const before = {
      ...noRestoredVolumes,
      claims: new Map([
        ["home", "home-b-0"],
        ["data", "data-b"],
      ]),
    };
    const { claims, filled } = rolledBackVolumes(some, before, { ...clone, request: "0123456789abcdef" });
    expect(Object.fromEntries(claims)).toEqual({ home: "home-b-01234567", data: "data-b" });
    expect([...filled.keys()]).toEqual(["home-b-01234567"]);
  });
});

describe("inPlaceProblem", () => {
  const only = { id: "c-1", missing: [home], captured: [] };

  it("accepts Shared for the source's own claims, and Empty for others", () => {
    const other = { volume: "home", claim: "home-b" };
    expect(inPlaceProblem(only, "Shared", [home])).toBeUndefined();
    expect(inPlaceProblem(only, "Empty", [other])).toBeUndefined();
    expect(inPlaceProblem(only, "Shared", [other])?.code).toBe("VolumesNotCaptured");
    expect(inPlaceProblem(only, "Empty", [home])?.code).toBe("VolumesNotCaptured");
    expect(inPlaceProblem(only, undefined, [home])?.code).toBe("VolumesNotCaptured");
    expect(inPlaceProblem({ id: "c-1", missing: [], captured: [] }, undefined, [home])).toBeUndefined();
  });
});
