import { expect, it } from "vitest";
import { Sandbox } from "../../api/kinds/sandbox.ts";
import { timers } from "./plan.ts";

const now = new Date("2030-01-01T00:00:00Z");
const past = "2029-12-31T23:59:00Z";
const future = "2030-01-01T00:01:00Z";

function sandbox(spec: object, annotations: Record<string, string> = {}, phase = "Running", ready = "r"): Sandbox {
  const conditions = [{ type: "Ready", status: "False", reason: ready, message: "", lastTransitionTime: past }];
  return Sandbox.parse({
    apiVersion: "agents.kruise.io/v1alpha1",
    kind: "Sandbox",
    metadata: { name: "a", namespace: "t", uid: "u", resourceVersion: "1", creationTimestamp: past, annotations },
    spec,
    status: { phase, conditions },
  });
}

it("deletes past shutdownTime, pauses past pauseTime, and returns when the next one is due", () => {
  expect(timers(sandbox({}), now)).toEqual({});
  expect(timers(sandbox({ shutdownTime: past }), now)).toEqual({ action: { do: "deleteSandbox" } });
  expect(timers(sandbox({ pauseTime: past, shutdownTime: future }), now)).toEqual({
    action: { do: "setPaused" },
    nextAt: new Date(future),
  });
  expect(timers(sandbox({ pauseTime: future }), now)).toEqual({ nextAt: new Date(future) });
});

it("pauses only a running sandbox that is not paused already", () => {
  expect(timers(sandbox({ pauseTime: past, paused: true }), now)).toEqual({});
  expect(timers(sandbox({ pauseTime: past }, {}, "Pending"), now)).toEqual({});
  expect(timers(sandbox({ pauseTime: past }, {}, "Resuming"), now)).toEqual({});
  expect(timers(sandbox({ pauseTime: past }, {}, "Failed", "ImageReplaced"), now)).toEqual({});
});

it("pauses a resume that waits for its image", () => {
  const waiting = sandbox({ pauseTime: past }, {}, "Resuming", "ImageReplaced");
  expect(timers(waiting, now)).toEqual({ action: { do: "setPaused" } });
});

it("prefers a pause with a reserve to a shutdown, and postpones the shutdown", () => {
  const both = { pauseTime: past, shutdownTime: past };
  const key = "agents.kruise.io/reserve-paused-sandbox-duration";
  expect(timers(sandbox(both, { [key]: "1h" }), now)).toEqual({
    action: { do: "setPaused", shutdownTime: "2030-01-01T01:00:00.000Z" },
  });
  expect(timers(sandbox(both, { [key]: "no duration" }), now)).toEqual({ action: { do: "deleteSandbox" } });
});

it("keeps the files only, if a client has requested that for the end of the time", () => {
  const { action } = timers(sandbox({ pauseTime: past }, { "ramet.dev/on-timeout": "pauseFiles" }), now);
  expect(action).toEqual({ do: "setPaused", keepsFilesOnly: true });
});
