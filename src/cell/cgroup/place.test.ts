import { describe, expect, it } from "vitest";
import { placeV2 } from "./place.ts";

const mount = "/sys/fs/cgroup";
const atRoot = { version: 2, mount, own: mount } as const;
const inScope = { version: 2, mount, own: `${mount}/user.slice/a.scope` } as const;
const all = "cpuset cpu io memory pids\n";

describe("placeV2", () => {
  it("returns a container's group with its limits", () => {
    const files = {
      type: "domain\n",
      processes: "1\n7\n",
      parentControllers: all,
      memoryMax: "536870912\n",
      cpuMax: "50000 100000\n",
      pidsMax: "max\n",
    };
    expect(placeV2(atRoot, files)).toEqual({
      kind: "pod",
      parent: mount,
      controllers: ["cpuset", "cpu", "io", "memory", "pids"],
      bounds: { memoryBytes: 536870912, cpuMillis: 500 },
    });
  });

  it("returns the root of the hierarchy, which has no type, for a cell in it", () => {
    expect(placeV2(atRoot, { processes: "1\n7\n0\n", parentControllers: all })).toMatchObject({
      kind: "machine",
      parent: mount,
      bounds: {},
    });
  });

  it("returns the parent of a session's scope without limits", () => {
    const files = { type: "domain\n", processes: "7\n", parentControllers: "memory pids\n", memoryMax: "max\n" };
    expect(placeV2(inScope, files)).toEqual({
      kind: "machine",
      parent: `${mount}/user.slice`,
      controllers: ["memory", "pids"],
      bounds: {},
    });
  });

  it("rejects a scope with limits, which would not apply next to it", () => {
    expect(() => placeV2(inScope, { type: "domain\n", parentControllers: all, memoryMax: "1073741824\n" })).toThrow(
      /the limits of the cell's group .*a\.scope would not apply/,
    );
  });

  it("rejects a container's group with processes of others", () => {
    expect(() => placeV2(atRoot, { type: "domain\n", processes: "0\n1\n", parentControllers: all })).toThrow(
      /shares its control group/,
    );
  });
});
