import { expect, it } from "vitest";
import { ManualClock } from "../../../test/setup/manual-clock.ts";
import { Checkpoint, type CheckpointManifest } from "../../api/kinds/checkpoint.ts";
import { NamedSnapshot } from "../../api/kinds/named-snapshot.ts";
import { RametError } from "../../base/errors.ts";
import { createCheckpoint } from "./clone-sandbox.ts";
import { deleteAllSources, untilVersion } from "./snapshots.ts";

const meta = { namespace: "t", uid: "u", resourceVersion: "1", creationTimestamp: "2030-01-01T00:00:00Z" };
const { signal } = new AbortController();
const source = (name: string, of: string, id = "c-1"): Checkpoint =>
  Checkpoint.parse({
    apiVersion: "agents.kruise.io/v1alpha1",
    kind: "Checkpoint",
    metadata: { ...meta, name, uid: `uid-${name}`, labels: { "ramet.dev/source-of": of } },
    spec: { sandboxName: "a" },
    status: { phase: "Succeeded", checkpointId: id },
  });
const snapshot = (reason: string, id: string): NamedSnapshot =>
  NamedSnapshot.parse({
    apiVersion: "ramet.dev/v1alpha1",
    kind: "NamedSnapshot",
    metadata: { ...meta, name: "py", generation: 1 },
    spec: { from: { checkpoint: { id } } },
    status: {
      observedGeneration: 1,
      conditions: [
        { type: "Building", status: "False", reason, message: "", lastTransitionTime: meta.creationTimestamp },
      ],
    },
  });

/** Waits in vain until a version of `c-1` is built: the snapshot is always as it is given. */
async function codeOf(seen: NamedSnapshot, isNew = false): Promise<string> {
  const clock = new ManualClock();
  const patch = () => Promise.resolve(seen);
  const snapshots = {
    create: patch,
    patch,
    remove: () => Promise.resolve(true),
    follow: <R>(_: NamedSnapshot, { until }: { until: (one: NamedSnapshot, waited: number) => R | undefined }) => {
      clock.advance(1_000);
      return Promise.resolve(until(seen, 60_000)!);
    },
  };
  const parts = {
    clock,
    objects: { snapshots },
    known: { snapshot: () => seen },
    informers: { snapshots: { resource: { find: patch } } },
  };
  const create = { owner: "t/key", isNew, timeoutMilliseconds: 10_000, signal };
  const named = untilVersion(parts, { checkpoint: source("s", "py"), name: "py" }, create);
  return named.then(
    () => "built",
    (error: unknown) => RametError.from(error).code,
  );
}

it("fails with Conflict if the snapshot is suspended, and names this checkpoint", async () => {
  expect(await codeOf(snapshot("Suspended", "c-1"))).toBe("Conflict");
});

it("fails with Timeout if other requests replace the source until the time is over", async () => {
  expect(await codeOf(snapshot("Built", "c-2"))).toBe("Timeout");
});

it("gives no version to a snapshot that another request has created meanwhile, if it has to be new", async () => {
  expect(await codeOf(snapshot("Built", "c-2"), true)).toBe("AlreadyExists");
  expect(await codeOf(snapshot("Suspended", "c-1"), true)).toBe("Conflict");
});

it("deletes all sources of a snapshot that is deleted, and no others", async () => {
  const removed: string[] = [];
  const remove = ({ metadata }: { metadata: { name: string } }) => Promise.resolve(removed.push(metadata.name) > 0);
  const unused = () => Promise.reject(new Error("not used"));
  const checkpoints = { remove, create: unused, patch: unused, follow: unused };
  const known = { checkpointsIn: () => [source("failed", "py"), source("other", "js"), source("built", "py")] };
  await deleteAllSources({ objects: { checkpoints }, known }, snapshot("Built", "c-1"));
  expect(removed).toEqual(["failed", "built"]);
});

it("tries a limited number of names for the checkpoint of a clone", async () => {
  const names: (string | undefined)[] = [];
  const create = ({ metadata }: { metadata: { name?: string | undefined } }) => {
    names.push(metadata.name);
    return Promise.reject(new RametError("AlreadyExists", "taken"));
  };
  const { apiVersion, kind, spec } = source("s", "py");
  const manifest = { apiVersion, kind, spec, metadata: { namespace: "t" } } as CheckpointManifest;
  const parts = { objects: { checkpoints: { create } }, clock: new ManualClock() };
  await expect(createCheckpoint(parts, manifest, { sandbox: "a", signal })).rejects.toMatchObject({ code: "Conflict" });
  expect(new Set(names).size).toBe(30);
});
