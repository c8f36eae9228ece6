import { expect, it } from "vitest";
import { NamedSnapshot } from "../../api/kinds/named-snapshot.ts";
import { clientBuildsAnnotation, clientBuildsOf } from "../../api/snapshot/client-builds.ts";
import { tagsOf } from "../../api/snapshot/snapshot-reference.ts";
import { logEntries } from "../dialects/e2b/template-view.ts";
import { buildState, settled } from "./template-build-state.ts";

const startedAt = "2026-01-01T00:00:00Z";
const later = new Date("2026-01-01T00:10:00Z");
const build = (id: string, more: object = {}) => ({ id, requestedAt: startedAt, tags: ["default", "v1"], ...more });
const digest = `sha256:${"0".repeat(64)}`;
const step = (state: string, more: object = {}) => ({ digest, step: "run x", state, cached: false, ...more });

function snapshot(builds: ReturnType<typeof build>[], status: object, building?: { status: string; reason: string }) {
  const conditions =
    building === undefined ? [] : [{ type: "Building", message: "why", lastTransitionTime: startedAt, ...building }];
  return NamedSnapshot.parse({
    apiVersion: "ramet.dev/v1alpha1",
    kind: "NamedSnapshot",
    metadata: {
      name: "a",
      namespace: "n",
      uid: "u",
      generation: 2,
      resourceVersion: "1",
      creationTimestamp: startedAt,
      annotations: clientBuildsAnnotation(builds),
    },
    spec: { from: { template: { name: "t" } } },
    status: { observedGeneration: 2, conditions, ...status },
  });
}

const stateOf = (of: NamedSnapshot, id = "1", now = later) => {
  const found = clientBuildsOf(of).find((each) => each.id === id);
  if (found === undefined) throw new Error(`there is no build ${id}`);
  return buildState(of, found, now);
};
const started = { startedAt, origins: ["1", "2"] };
const built = { status: "False", reason: "Built" };
const failed = { status: "False", reason: "StepFailed" };
const failure = { reason: "StepFailed", message: "exit code 3", step: 2 };

it("waits until the client starts the build, and until the controllers have seen it", () => {
  expect(stateOf(snapshot([build("1")], {}, built))).toEqual({ status: "waiting" });
  expect(stateOf(snapshot([build("1", started)], { observedGeneration: 1, version: 1 }, built))).toEqual({
    status: "building",
  });
  expect(stateOf(snapshot([build("1", started)], { version: 1 }, built))).toEqual({ status: "ready", version: 1 });
});

it("attributes a failure to the step of the client, but not that of an earlier build", () => {
  const ofBuild = (request: string) => ({ build: { digest, startedAt, attempt: 1, request, failure } });
  expect(stateOf(snapshot([build("1", started)], ofBuild("1"), failed))).toEqual({
    status: "error",
    error: "exit code 3",
    step: "2",
  });
  expect(stateOf(snapshot([build("1", started)], ofBuild("0"), failed))).toEqual({ status: "building" });
});

it("fails for an input that is still missing after a while", () => {
  const missing = snapshot([build("1", started)], {}, { status: "False", reason: "InputMissing" });
  expect(stateOf(missing, "1", new Date("2026-01-01T00:00:05Z"))).toEqual({ status: "building" });
  expect(stateOf(missing)).toEqual({ status: "error", error: "why", step: "base" });
});

it("notes the outcome and the tags of the version once, and keeps them for later builds", () => {
  const ready = snapshot([build("1", started)], { version: 3 }, built);
  const after = settled(ready, later);
  expect(tagsOf(after)).toEqual({ v1: 3 });
  expect(settled(after, later)).toBe(after);
  const replaced = snapshot(
    [...clientBuildsOf(after), build("2", started)],
    { version: 4 },
    { status: "True", reason: "RunningStep" },
  );
  expect(stateOf(replaced, "1")).toEqual({ status: "ready", version: 3 });
  expect(stateOf(replaced, "2")).toEqual({ status: "building" });
});

it("fails a build that another one has replaced", () => {
  expect(stateOf(snapshot([build("1", started), build("2", started)], {}, built))).toMatchObject({ status: "error" });
});

it("only adds entries at the end of the log while a build goes through its steps", () => {
  const at = (steps: object[]) => {
    const of = snapshot([build("1", started)], { steps, build: { digest, startedAt, attempt: 1, request: "1" } });
    return logEntries(of, clientBuildsOf(of)[0] ?? expect.fail());
  };
  const done = step("Succeeded", { milliseconds: 1500, output: "one\ntwo\n" });
  const logs = [
    at([step("Pending"), step("Pending")]),
    at([step("Running"), step("Pending")]),
    at([done, step("Pending")]),
    at([done, step("Running")]),
    at([done, step("Failed", { error: "exit code 3", milliseconds: 5 })]),
  ];
  for (const [index, log] of logs.entries()) expect(logs.at(-1)?.slice(0, log.length)).toEqual(logs[index]);
  expect(logs.at(-1)?.map(({ level, message, step: of }) => `${of} ${level} ${message}`)).toEqual([
    "1 info [1] run x",
    "1 info one",
    "1 info two",
    "2 info [2] run x",
    "2 error exit code 3",
  ]);
});
