import { describe, expect, it } from "vitest";
import { type KnownEngine, engineId, parseEngineList } from "../../api/engine/engine.ts";
import type { CheckpointPart } from "../../api/kinds/checkpoint.ts";
import { Engines } from "./engines.ts";

const digest = `sha256:${"a".repeat(64)}`;
const build = (version: string, architecture = "amd64") => ({ version, architecture, guest: digest });
const pod = (image: string, imageID?: string) => ({
  spec: { containers: [{ name: "main", image }] },
  status: { containerStatuses: [{ name: "main", ...(imageID !== undefined && { imageID }) }] },
});
const one = engineId(build("1"));
const two = engineId(build("2"));
const remembered = (entries: Record<string, KnownEngine>) => ({
  entries: new Map(Object.entries(entries)),
  save: () => Promise.resolve(true),
  read: () => Promise.resolve(new Map()),
});
/** A stand-in for the ConfigMap. `gates`: what the saves wait for, and whether they succeed. */
function configMap(gates: Promise<boolean>[] = []) {
  const data = new Map<string, KnownEngine>();
  const save = async (id: string, entry: KnownEngine | null): Promise<boolean> => {
    if ((await gates.shift()) === false) return false;
    if (entry === null) data.delete(id);
    else data.set(id, entry);
    return true;
  };
  return {
    data,
    memory: { entries: new Map<string, KnownEngine>(), save, read: () => Promise.resolve(new Map(data)) },
  };
}
const { signal } = new AbortController();
const part = (engine: string): CheckpointPart => ({
  backend: "cell",
  handle: digest,
  contents: ["memory", "filesystem"],
  cutAt: "2026-01-01T00:00:00Z",
  sizeBytes: 1,
  consistency: "atomic",
  needs: { architecture: "amd64", engine: "1", platform: "systrap", engineId: engine },
});

describe("Engines", () => {
  it("uses the current cell image until a cell has reported its engine", () => {
    const engines = new Engines({ cellImage: "cell:2" });
    expect(engines.stateOf({ engineId: one, architecture: "amd64" })).toBe("unknown");
    expect(engines.imageFor({ engineId: one })).toBe("cell:2");
    expect(engines.problemOf([part(one)], "c")).toBeUndefined();
  });

  it("restores memory of an earlier engine in the image with that engine, by its digest", async () => {
    const before = new Engines({ cellImage: "cell:1" });
    await before.learn(pod("cell:1", `registry.example/cell@${digest}`), build("1"));
    const engines = new Engines({ cellImage: "cell:2" }, remembered(Object.fromEntries(before.list())));
    await engines.learn(pod("cell:2"), build("2"));
    expect([engines.stateOf({ engineId: one }), engines.stateOf({ engineId: two })]).toEqual(["earlier", "current"]);
    expect(engines.imageFor({ engineId: one })).toBe(`registry.example/cell@${digest}`);
    expect(engines.imageFor({ engineId: two })).toBe("cell:2");
    expect(engines.imageFor({})).toBe("cell:2");
  });

  it("names the engine that no image has, and the option that names its image", () => {
    const engines = new Engines({ cellImage: "cell:2", cellEngine: two });
    const problem = engines.problemOf([part(one)], "c-1");
    expect(problem?.code).toBe("EngineMissing");
    expect(problem?.describe()).toContain(`--earlier-cell-image ${one}=<image>`);
    const named = new Engines({ cellImage: "cell:2", cellEngine: two, earlierCellImages: new Map([[one, "cell:1"]]) });
    expect(named.problemOf([part(one)], "c-1")).toBeUndefined();
    expect(named.imageFor({ engineId: one })).toBe("cell:1");
  });

  it("does not compare engines of different architectures", async () => {
    const engines = new Engines({ cellImage: "cell:2" });
    await engines.learn(pod("cell:2"), build("2", "arm64"));
    expect(engines.stateOf({ engineId: one, architecture: "amd64" })).toBe("unknown");
  });

  it("finds an earlier engine by its digest after its tag has moved, and forgets it if no node has reported one", async () => {
    const pinned = new Engines({ cellImage: "cell:latest" });
    await pinned.learn(pod("cell:latest", `registry.example/cell@${digest}`), build("1"));
    await pinned.learn(pod("cell:latest"), build("2"));
    expect(pinned.imageFor({ engineId: one })).toBe(`registry.example/cell@${digest}`);
    expect(pinned.stateOf({ engineId: two })).toBe("current");
    const unpinned = new Engines({ cellImage: "cell:latest" });
    await unpinned.learn(pod("cell:latest"), build("1"));
    await unpinned.learn(pod("cell:latest"), build("2"));
    expect(unpinned.stateOf({ engineId: one, architecture: "amd64" })).toBe("missing");
  });

  it("restores in the current image after a downgrade, and in a known image of a newer engine", () => {
    const entries = { [one]: { image: "cell:1", name: "cell:1" }, [two]: { image: "cell:2", name: "cell:2" } };
    const engines = new Engines({ cellImage: "cell:1" }, remembered(entries));
    expect([engines.imageFor({ engineId: one }), engines.imageFor({ engineId: two })]).toEqual(["cell:1", "cell:2"]);
  });

  it("ignores entries of the ConfigMap that it cannot read", () => {
    const data = { [one]: "{", [two]: JSON.stringify({ image: "cell:2", name: "cell:2" }), note: "x" };
    expect([...parseEngineList(data).keys()]).toEqual([two]);
  });

  it("reports an engine only when the cluster remembers it, and repeats a save that failed", async () => {
    const results = [false, true];
    const saved: (string | undefined)[] = [];
    const gate = Promise.withResolvers<undefined>();
    const save = async (_: string, entry: KnownEngine | null): Promise<boolean> => {
      await gate.promise;
      saved.push(entry?.name);
      return results.shift() ?? true;
    };
    const engines = new Engines({ cellImage: "cell:2" }, { ...remembered({}), save });
    const reported: number[] = [];
    const reports = [1, 2].map((report) =>
      engines.learn(pod("cell:2"), build("2")).then(() => {
        reported.push(report);
      }),
    );
    await Promise.resolve();
    expect(reported).toEqual([]);
    gate.resolve(undefined);
    await Promise.all(reports);
    expect(saved).toEqual(["cell:2", "cell:2"]);
    await engines.learn(pod("cell:2"), build("2"));
    expect(saved).toHaveLength(2);
  });

  it("keeps the digest of the current image when its engine is named in advance", async () => {
    const before = new Engines({ cellImage: "cell:1" });
    await before.learn(pod("cell:1", `registry.example/cell@${digest}`), build("1"));
    const entries = Object.fromEntries(before.list());
    const restarted = new Engines({ cellImage: "cell:1", cellEngine: one }, remembered(entries));
    const upgraded = new Engines({ cellImage: "cell:2" }, remembered(Object.fromEntries(restarted.list())));
    expect(upgraded.imageFor({ engineId: one })).toBe(`registry.example/cell@${digest}`);
  });

  it("remembers an engine that is reported while its drop is under way", async () => {
    const gate = Promise.withResolvers<boolean>();
    const { data, memory } = configMap([Promise.resolve(true), gate.promise]);
    const engines = new Engines({ cellImage: "cell:2" }, memory);
    await engines.learn(pod("cell:1"), build("1"));
    const dropped = engines.drop(one);
    const reported = engines.learn(pod("cell:1"), build("1"));
    gate.resolve(true);
    await Promise.all([dropped, reported]);
    expect(data.get(one)?.name).toBe("cell:1");
    expect(engines.list().has(one)).toBe(true);
  });

  it("remembers again what the cluster has lost, but neither what it has dropped nor what an option names", async () => {
    const { data, memory } = configMap([Promise.resolve(true), Promise.resolve(false)]);
    const three = engineId(build("3"));
    const named = { cellImage: "cell:2", earlierCellImages: new Map([[three, "cell:3"]]) };
    const engines = new Engines(named, memory);
    await engines.learn(pod("cell:1"), build("1"));
    // This save fails.
    await engines.learn(pod("cell:2"), build("2"));
    expect([...data.keys()]).toEqual([one]);
    data.clear();
    await engines.saveMissing(signal);
    expect([...data.keys()].sort()).toEqual([one, two].sort());
    await engines.drop(one);
    await engines.saveMissing(signal);
    expect([...data.keys()]).toEqual([two]);
  });
});
