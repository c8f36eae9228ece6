import { expect, it } from "vitest";
import { Pod } from "../../api/schema/pod.ts";
import { printFailedCell } from "../../api/wire/cell-api.ts";
import { endProblem } from "./pod-facts.ts";

/** A Pod whose cell has failed, as a kubelet reports it. */
function failedPod(message: string): Pod {
  const terminated = { exitCode: 70, reason: "Error", message };
  return Pod.parse({
    metadata: { name: "a", namespace: "t", uid: "u", resourceVersion: "1", creationTimestamp: "2030-01-01T00:00:00Z" },
    spec: { containers: [{ name: "sandbox", image: "cell" }] },
    status: { phase: "Failed", containerStatuses: [{ name: "sandbox", state: { terminated } }] },
  });
}

it("reads why a cell failed from the message that it left on a kubelet's node", () => {
  const code = "OutOfMemory";
  const cause = "the sandbox was killed: it exceeded its memory limit of 512Mi";
  const hint = "Raise the limit";
  const state = { phase: "failed", generation: 1, ready: false, code, message: cause, hint } as const;
  expect(endProblem(failedPod(printFailedCell(state)))).toEqual({ code, cause, hint });
});

it("takes every other message as the cause", () => {
  const cause = "the entrypoint exited with code 3";
  expect(endProblem(failedPod(cause))).toEqual({ code: "PodFailed", cause });
  expect(endProblem(failedPod('{"code":"<b>"}'))).toEqual({ code: "PodFailed", cause: '{"code":"<b>"}' });
});
