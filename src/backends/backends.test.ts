import { describe, expect, it } from "vitest";
import type { CheckpointPart } from "../api/kinds/checkpoint.ts";
import { RametError } from "../base/errors.ts";
import type { Backend, Probe } from "./backend.ts";
import { Backends } from "./backends.ts";

const both = ["memory", "filesystem"] as const;
const noClaims = { claims: [] };

/** A backend of which only the probe is used. */
function probed(name: string, probe: () => Probe): Backend {
  return { name, probe: () => Promise.resolve(probe()) } as unknown as Backend;
}
const cell = probed("cell", () => ({ contents: [[...both], ["filesystem"]] }));
const volumes = probed("volumes", () => ({ contents: [["volumes"]] }));

async function chosen(backends: Backends, ...volumes: string[]): Promise<string[]> {
  const plans = await backends.forContents([...both], {
    claims: volumes.map((volume) => ({ volume, claim: `${volume}-a` })),
  });
  return plans.map(({ backend, contents }) => `${backend.name}: ${contents.join(", ")}`);
}

describe("Backends", () => {
  it("plans the part with files last, after the volumes that are requested", async () => {
    const backends = new Backends([cell, volumes]);
    expect(await chosen(backends)).toEqual(["cell: memory, filesystem"]);
    expect(await chosen(backends, "data")).toEqual(["volumes: volumes", "cell: memory, filesystem"]);
    const onlyVolumes = await backends.forContents([], { claims: [{ volume: "data", claim: "data-a" }] });
    expect(onlyVolumes.map(({ backend }) => backend.name)).toEqual(["volumes"]);
  });

  it("rejects contents that no backend captures, with the problem of a backend that does not work", async () => {
    await expect(new Backends([volumes]).forContents([...both], noClaims)).rejects.toMatchObject({
      code: "BackendMissing",
    });
    await expect(chosen(new Backends([cell]), "data")).rejects.toMatchObject({ code: "BackendMissing" });
    const problem = new RametError("StoreReadOnly", "the store cannot be written");
    const broken = probed("cell", () => ({ contents: [], problem }));
    await expect(new Backends([broken]).forContents([...both], noClaims)).rejects.toBe(problem);
  });

  it("probes once while a backend works, and again while it does not", async () => {
    let probes = 0;
    const flaky = probed("cell", () =>
      ++probes < 3
        ? { contents: [], problem: new RametError("StoreUnavailable", "no store") }
        : { contents: [[...both]] },
    );
    const backends = new Backends([flaky]);
    await expect(chosen(backends)).rejects.toMatchObject({ code: "StoreUnavailable" });
    expect(await chosen(backends)).toEqual(["cell: memory, filesystem"]);
    await chosen(backends);
    expect(probes).toBe(3);
  });

  it("uses a backend that works and reports a problem, such as a store that is nearly full", async () => {
    const problem = new RametError("StoreFull", "the store is nearly full");
    const backends = new Backends([probed("cell", () => ({ contents: [[...both]], problem }))]);
    expect(await chosen(backends)).toEqual(["cell: memory, filesystem"]);
  });

  it("orders parts for a restore, and names the missing backend of a part", () => {
    const part = (backend: string, contents: CheckpointPart["contents"]): CheckpointPart => ({
      backend,
      handle: "h",
      contents,
      cutAt: "2030-01-01T00:00:00Z",
      sizeBytes: 1,
      consistency: "crash",
    });
    const backends = new Backends([cell, volumes]);
    const ordered = backends.forParts([part("cell", [...both]), part("volumes", ["volumes"])]);
    expect(ordered.map(({ backend }) => backend.name)).toEqual(["volumes", "cell"]);
    expect(() => backends.forParts([part("acs", [...both])])).toThrow(
      expect.objectContaining({ code: "BackendMissing", message: expect.stringContaining("acs") as string }) as Error,
    );
  });
});
