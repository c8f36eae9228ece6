import { expect, it } from "vitest";
import { Pod } from "../../api/schema/pod.ts";
import { printFailedCell } from "../../api/wire/cell-api.ts";
import { endProblem, unreadyMessage } from "./pod-facts.ts";

const containing = (text: string) => expect.stringContaining(text) as string;

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

it.each([
  ["Pod ephemeral local storage usage exceeds the total limit of containers 1Gi. ", "the limit of ephemeral-storage"],
  ['Container sandbox exceeded its local ephemeral storage limit "1Gi". ', "the limit of ephemeral-storage"],
  ['Usage of EmptyDir volume "shared" exceeds the limit "1Gi". ', "sizeLimit of this volume"],
])("says that a limit of disk has ended it, and what to do: %s", (message, limit) => {
  const pod = failedPod("the cell was stopped");
  const evicted = (words: string) =>
    endProblem({ ...pod, status: { ...pod.status, reason: "Evicted", message: words } });
  expect(evicted(message)).toEqual({
    code: "Evicted",
    cause: `It used more disk than its Pod's limit allows, and the node has ended it without a capture: ${message.slice(0, -2)}`,
    hint: containing(`Raise ${limit} in the template`),
  });
  expect(evicted("The node was low on resource: memory.").hint ?? "").not.toContain("ephemeral-storage");
});

it("names a missing entrypoint beside the probe that failed, by the node's reason or by the Pod of a kubelet", () => {
  const words = { command: [], args: [] };
  const cell = (image: object) => ({
    name: "sandbox",
    image: "cell",
    startupProbe: { httpGet: { port: 1 } },
    env: [
      { name: "RAMET_CELL", value: JSON.stringify({ start: "boot", container: words }) },
      { name: "RAMET_IMAGE_CONFIG", value: JSON.stringify(image) },
    ],
  });
  const pod = (container: object, status: object) => {
    const { metadata } = failedPod("");
    return Pod.parse({ metadata, spec: { containers: [container] }, status });
  };
  const ended = { phase: "Failed", message: "the startup probe failed" };
  const missing = containing("the startup probe failed; no program was started in the sandbox");
  const code = "EntrypointMissing";
  const hint = containing("Set command in the template");
  expect(endProblem(pod(cell({}), ended))).toEqual({ code, cause: missing, hint });
  expect(endProblem(pod(cell({ entrypoint: ["serve"] }), ended))).toEqual({ code: "PodFailed", cause: ended.message });
  expect(endProblem(pod({ name: "sandbox", image: "cell" }, { ...ended, reason: code }))).toMatchObject({ code, hint });
  const conditions = [{ type: "Ready", status: "False", reason: "ContainersNotReady", message: "a probe failed" }];
  expect(unreadyMessage(pod(cell({}), { phase: "Running", conditions }))).toMatch(
    /a probe failed; no program was started .*\. Set command in the template/,
  );
});

it("takes every other message as the cause", () => {
  const cause = "the entrypoint exited with code 3";
  expect(endProblem(failedPod(cause))).toEqual({ code: "PodFailed", cause });
  expect(endProblem(failedPod('{"code":"<b>"}'))).toEqual({ code: "PodFailed", cause: '{"code":"<b>"}' });
});
