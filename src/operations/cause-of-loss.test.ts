import { expect, it } from "vitest";
import { Sandbox } from "../api/kinds/sandbox.ts";
import { RametError } from "../base/errors.ts";
import { causeOfLoss } from "./cause-of-loss.ts";
import type { Watched } from "./objects.ts";

function sandbox(phase: string, problem?: object): Sandbox {
  return Sandbox.parse({
    apiVersion: "agents.kruise.io/v1alpha1",
    kind: "Sandbox",
    metadata: { name: "a", namespace: "t", uid: "u", resourceVersion: "1", creationTimestamp: "2030-01-01T00:00:00Z" },
    spec: {},
    status: { phase, ...(problem && { ramet: { problems: { Ready: problem } } }) },
  });
}

/** Shows one state after another, and then times out. */
function seen(...states: (Sandbox | undefined)[]): { sandboxes: Watched<Sandbox> } {
  return {
    sandboxes: {
      follow: (_, { until }) => {
        for (const state of states) {
          const result = until(state, 0);
          if (result !== undefined) return Promise.resolve(result);
        }
        return Promise.reject(new RametError("Timeout", "timed out"));
      },
    },
  };
}

const lost = new RametError("GuestUnreachable", "the guest's stream broke off", { retryable: true });
const { signal } = new AbortController();
const running = sandbox("Running");

it("names out of memory to the caller whose connection broke", async () => {
  const problem = { code: "OutOfMemory", cause: "it exceeded its memory limit of 512Mi", hint: "Raise the limit" };
  const error = await causeOfLoss(seen(running, sandbox("Failed", problem)), running, lost, signal);
  expect(error.describe()).toBe(
    "The sandbox a has ended: it exceeded its memory limit of 512Mi. Raise the limit [OutOfMemory]",
  );
});

it("returns the error of the call if the sandbox keeps running, is deleted, or the call failed otherwise", async () => {
  expect(await causeOfLoss(seen(running), running, lost, signal)).toBe(lost);
  expect(await causeOfLoss(seen(undefined), running, lost, signal)).toBe(lost);
  const other = new RametError("InvalidArgument", "no such directory");
  expect(await causeOfLoss(seen(sandbox("Failed")), running, other, signal)).toBe(other);
});
