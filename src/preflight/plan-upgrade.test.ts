import { expect, it } from "vitest";
import type { Checkpoint } from "../api/kinds/checkpoint.ts";
import type { NamedSnapshot, NamedSnapshotSpec } from "../api/kinds/named-snapshot.ts";
import type { SandboxSet } from "../api/kinds/sandbox-set.ts";
import type { Sandbox } from "../api/kinds/sandbox.ts";
import { planUpgrade, type UpgradeState } from "./plan-upgrade.ts";

const [one, two] = ["1".repeat(12), "2".repeat(12)] as [string, string];
const meta = (name: string) => ({ namespace: "t", name });
const snapshot = (name: string, spec: Partial<NamedSnapshotSpec>, engine: string | undefined = one) =>
  ({
    metadata: meta(name),
    spec: { from: { template: { name: "a" } }, engineUpgrade: "Auto", ...spec },
    status: { version: 3, versions: [{ version: 3, digest: "d", engine, checkpointName: `${name}-3` }] },
  }) as unknown as NamedSnapshot;
const sandbox = (name: string, phase: string, set?: string, restoredFrom?: string) =>
  ({
    metadata: {
      ...meta(name),
      ...(set !== undefined && {
        ownerReferences: [{ kind: "SandboxSet", name: set }],
        labels: { "agents.kruise.io/sandbox-pool": set },
      }),
    },
    spec: { paused: phase === "Paused" },
    status: { phase, ramet: { engine: one, restoredFrom } },
  }) as unknown as Sandbox;
const checkpoint = (name: string, engine: string, purpose?: string) =>
  ({
    metadata: {
      ...meta(name),
      labels: { ...(purpose !== undefined && { "ramet.dev/purpose": purpose, "ramet.dev/snapshot": "auto" }) },
    },
    status: { ramet: { engine } },
  }) as unknown as Checkpoint;
const state: UpgradeState = {
  engines: new Map([
    [one, { image: "cell@sha256:1", name: "cell:1" }],
    [two, { image: "cell:2", name: "cell:2" }],
  ]),
  cellImage: "cell:3",
  cellEngine: undefined,
  checkpoints: [
    checkpoint("mine", one),
    checkpoint("auto-3", one, "version"),
    checkpoint("auto-2", one, "version"),
    checkpoint("step", one, "step"),
    checkpoint("pause", one, "pause"),
  ],
  sandboxes: [sandbox("p", "Paused"), sandbox("m", "Running", "pool"), sandbox("w", "Running", "warm", "id")],
  sets: ["pool", "warm", "empty"].map((name) => ({ metadata: meta(name) }) as SandboxSet),
  snapshots: [
    snapshot("auto", {}),
    snapshot("manual", { engineUpgrade: "Manual" }),
    snapshot("child", { from: { snapshot: { name: "auto" } } }),
    snapshot("bound", { from: { checkpoint: { id: "x" } } }),
    snapshot("pinned", { pinnedVersion: 3 }),
    snapshot("of-bound", { from: { snapshot: { name: "bound" } } }),
    snapshot("of-older", { from: { snapshot: { name: "auto", version: 2 } } }),
    snapshot("one", { from: { snapshot: { name: "other" } } }),
    snapshot("other", { from: { snapshot: { name: "one" } } }),
    { ...snapshot("files", {}), status: { version: 3, versions: [{ version: 3 }] } } as unknown as NamedSnapshot,
  ],
};

it("lists what happens to snapshots, sets, paused sandboxes and engines", () => {
  expect(planUpgrade(state).map(({ kind, name, what }) => `${kind} ${name} ${what}`)).toEqual([
    "NamedSnapshot auto version 3 is captured again in the background, and stays current until then",
    "NamedSnapshot manual version 3 keeps its engine until a build is requested (engineUpgrade: Manual)",
    "NamedSnapshot child version 3 is captured again after the named snapshot auto",
    "NamedSnapshot bound version 3 keeps its engine, because it cannot be captured again: its source is memory of the checkpoint x",
    "NamedSnapshot pinned version 3 keeps its engine: it is pinned",
    "NamedSnapshot of-bound version 3 keeps its engine, because its source, the named snapshot bound, keeps its engine",
    "NamedSnapshot of-older version 3 keeps its engine, because its source is version 2 of auto, which is not captured again",
    "NamedSnapshot one version 3 keeps its engine, because its source, the named snapshot other, keeps its engine",
    "NamedSnapshot other version 3 keeps its engine, because its source, the named snapshot one, keeps its engine",
    "SandboxSet pool 1 sandboxes are replaced, new ones first",
    "SandboxSet warm 1 sandboxes are replaced when the snapshot that fills the set has a new version",
    "Sandbox p is paused, and resumes in cell@sha256:1",
    "Checkpoint mine keeps its engine: clones of it start in cell@sha256:1",
    "Checkpoint auto-2 is of another version of auto, and keeps its engine: clones of it start in cell@sha256:1",
    `Engine ${one} keep cell@sha256:1: 5 checkpoints and 3 sandboxes have it`,
    `Engine ${two} is forgotten: nothing needs it; cell:2 can be deleted`,
  ]);
});

it("lists nothing for the image that runs, and compares engines where the new one is known", () => {
  const engines = new Map([[one, { image: "cell@sha256:1", name: "cell:1" }]]);
  expect(planUpgrade({ ...state, engines, cellImage: "cell:1" })).toEqual([]);
  expect(planUpgrade({ ...state, engines, cellEngine: one })).toEqual([]);
});

it("names an engine that no image has", () => {
  const what = planUpgrade({
    ...state,
    engines: new Map(),
    checkpoints: [checkpoint("step", one, "step")],
    snapshots: [],
    sets: [],
    sandboxes: [],
  }).map((step) => step.what);
  expect(what).toEqual([
    "keep an image that no one has named (--earlier-cell-image): 1 checkpoints and 0 sandboxes have it",
  ]);
});
