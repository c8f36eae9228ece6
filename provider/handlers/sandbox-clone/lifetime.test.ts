import { expect, it } from "vitest";
import { Sandbox } from "../../../src/api/kinds/sandbox.ts";
import { SandboxCloneInputs, applyWithShutdownTime, observedLifetime } from "./handler.ts";

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

/** A stand-in for the API server, which sets the creation time independently of the client's clock. */
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
])(
  "sets the shutdown time relative to the creation with a clock that is %s, and reads it back unchanged",
  async (_, now) => {
    const { asked, declare } = server();
    const made = await applyWithShutdownTime(inputs, { existing: undefined, now: new Date(now) }, declare);
    expect(made.spec.shutdownTime).toBe(rightEnd);
    expect(asked).toHaveLength(2);
    expect(observedLifetime(inputs, made)).toEqual(inputs);
  },
);

it("applies once if the time was right, if the clone exists, or without a lifetime", async () => {
  const { asked, declare } = server();
  const there = await applyWithShutdownTime(inputs, { existing: undefined, now: new Date(madeAt) }, declare);
  await applyWithShutdownTime(inputs, { existing: there, now: new Date("2026-01-01T12:00:00Z") }, declare);
  const { lifetime: _, ...endless } = inputs;
  await applyWithShutdownTime(endless, { existing: undefined, now: new Date("2026-01-01T12:00:00Z") }, declare);
  expect(asked).toEqual([rightEnd, rightEnd, undefined]);
});

it("observes a changed lifetime, but ignores a shutdown time that a pause moved", () => {
  const shutdownTime = "2026-01-01T11:00:01Z";
  expect(observedLifetime(inputs, sandbox({ shutdownTime }))).toMatchObject({ lifetime: "3600 seconds" });
  expect(observedLifetime(inputs, sandbox({ shutdownTime, paused: true }))).toEqual(inputs);
  expect(observedLifetime(inputs, sandbox({}))).not.toHaveProperty("lifetime");
});
