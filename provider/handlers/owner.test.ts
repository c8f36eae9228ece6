import { expect, it } from "vitest";
import type { KubeObject } from "../../src/kube/object.ts";
import { applyOptionsFor, isOwn } from "./owner.ts";

const owner = "org/agents/prod/data";
const object = (annotations?: Record<string, string>, deletionTimestamp?: string): KubeObject => ({
  apiVersion: "ramet.dev/v1alpha1",
  kind: "NamedSnapshot",
  metadata: {
    name: "data",
    namespace: "team-a",
    uid: "u",
    resourceVersion: "1",
    creationTimestamp: "2026-01-01T00:00:00Z",
    ...(annotations && { annotations }),
    ...(deletionTimestamp !== undefined && { deletionTimestamp }),
  },
});
const declaredBy = (name: string) => ({ "ramet.dev/pulumi-resource": name });

it("takes over what nobody declares only with a state, and names the command that allows it", () => {
  expect(() => applyOptionsFor(object(), owner)).toThrow(
    expect.objectContaining({
      code: "AlreadyExists",
      message: "NamedSnapshot team-a/data exists, and this program does not declare it",
      hint: expect.stringContaining(
        "kubectl annotate --overwrite namedsnapshot data -n team-a ramet.dev/pulumi-resource=org/agents/prod/data",
      ) as string,
    }) as Error,
  );
  expect(applyOptionsFor(object(), owner, { owner })).toMatchObject({ force: false });
  // An imported one: its other managers lose what the program declares.
  expect(applyOptionsFor(object(), owner, { owner, uid: "u" })).toMatchObject({ force: true });
  // Somebody has created another one since.
  expect(() => applyOptionsFor(object(), owner, { owner, uid: "earlier" })).toThrow(/this program does not declare it/);
  expect(applyOptionsFor(object(declaredBy(owner)), owner)).toMatchObject({ force: true });
});

it("refuses what another resource declares, but not what this one declared under an earlier name", () => {
  const theirs = object(declaredBy("agents/prod/data"));
  expect(() => applyOptionsFor(theirs, owner, { owner })).toThrow(/is declared by agents\/prod\/data/);
  // A provider without an organization wrote this name into its state.
  expect(applyOptionsFor(theirs, owner, { owner: "agents/prod/data" })).toMatchObject({ force: true });
});

it("knows the object of a state by its owner, and one that nobody declares by its UID", () => {
  expect(isOwn(object(), { owner })).toBe(true);
  expect(isOwn(object(), { owner, uid: "u" })).toBe(true);
  expect(isOwn(object(), { owner, uid: "earlier" })).toBe(false);
  expect(isOwn(object(declaredBy(owner)), { owner, uid: "earlier" })).toBe(true);
  expect(isOwn(object(declaredBy("another")), { owner, uid: "u" })).toBe(false);
});

it("waits for the end of an object that is being deleted, whoever declared it", () => {
  expect(applyOptionsFor(object(undefined, "2026-01-01T00:00:00Z"), owner)).toMatchObject({ force: false });
  expect(applyOptionsFor(undefined, owner)).toMatchObject({ force: false });
});
