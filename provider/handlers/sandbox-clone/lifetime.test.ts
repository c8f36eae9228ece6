import { expect, it } from "vitest";
import { Sandbox } from "../../../src/api/kinds/sandbox.ts";
import { SandboxCloneInputs } from "./inputs.ts";
import { applyWithShutdownTime, observedLifetime } from "./handler.ts";

const inputs = SandboxCloneInputs.parse({
  name: "dev",
  namespace: "default",
  owner: "o/p/s/dev",
  from: "data",
  timeout: "2 minutes",
  lifetime: "8 hours",
});
const madeAt = "2026-01-01T10:00:01Z";
const rightEnd = "2026-01-01T18:00:01Z";

/** As an API server answers: it says when the object was made, whatever the clock of whoever asks. */
function server() {
  const asked: (string | undefined)[] = [];
  const declare = (end: { shutdownTime?: string }): Promise<Sandbox> => {
    asked.push(end.shutdownTime);
    return Promise.resolve(sandbox(end));
  };
  return { asked, declare };
}

function sandbox(spec: object): Sandbox {
  return Sandbox.parse({
    apiVersion: "agents.kruise.io/v1alpha1",
    kind: "Sandbox",
    metadata: { name: "dev", namespace: "default", uid: "1", resourceVersion: "1", creationTimestamp: madeAt },
    spec,
  });
}

it.each([
  ["a second late", "2026-01-01T10:00:00.999Z"],
  ["an hour fast", "2026-01-01T11:00:01Z"],
])("ends a lifetime after it was made, also by a clock that is %s, and a look finds it unchanged", async (_, now) => {
  const { asked, declare } = server();
  const made = await applyWithShutdownTime(inputs, { living: undefined, now: new Date(now) }, declare);
  expect(made.spec.shutdownTime).toBe(rightEnd);
  expect(asked).toHaveLength(2);
  expect(observedLifetime(inputs, made)).toEqual(inputs);
});

it("is declared once where the time was right, where it is there already, and where it has no lifetime", async () => {
  const { asked, declare } = server();
  const there = await applyWithShutdownTime(inputs, { living: undefined, now: new Date(madeAt) }, declare);
  await applyWithShutdownTime(inputs, { living: there, now: new Date("2026-01-01T12:00:00Z") }, declare);
  const { lifetime: _, ...endless } = inputs;
  await applyWithShutdownTime(endless, { living: undefined, now: new Date("2026-01-01T12:00:00Z") }, declare);
  expect(asked).toEqual([rightEnd, rightEnd, undefined]);
});

it("sees a lifetime that somebody has changed, and not that a pause has moved the end", () => {
  const shutdownTime = "2026-01-01T11:00:01Z";
  expect(observedLifetime(inputs, sandbox({ shutdownTime }))).toMatchObject({ lifetime: "3600 seconds" });
  expect(observedLifetime(inputs, sandbox({ shutdownTime, paused: true }))).toEqual(inputs);
  expect(observedLifetime(inputs, sandbox({}))).not.toHaveProperty("lifetime");
});
