import { expect, it } from "vitest";
import { parsePodTemplate } from "../schema/pod-template.ts";
import { skippedRuntime, withoutAgentRuntime } from "./agent-runtime.ts";

const runtime = {
  name: "runtime",
  image: "registry.example:5000/acs/agent-runtime:v0.0.2",
  command: ["sh", "/workspace/entrypoint_inner.sh"],
  restartPolicy: "Always",
};
const postStart = { exec: { command: ["/bin/bash", "-c", "/mnt/envd/envd-run.sh"] } };
const template = (initContainers: object[], lifecycle?: object) =>
  parsePodTemplate({
    spec: { initContainers, containers: [{ name: "sandbox", image: "code", ...(lifecycle && { lifecycle }) }] },
  });

it("skips the sidecar that injects envd, and the hook that starts it", () => {
  const given = template([{ name: "own", image: "busybox" }, runtime], { postStart });
  expect(withoutAgentRuntime(given).spec).toEqual({
    initContainers: [{ name: "own", image: "busybox" }],
    containers: [{ name: "sandbox", image: "code" }],
  });
  expect(skippedRuntime(given)).toMatch(
    /^Skipped the init container runtime and the postStart hook that runs envd-run.sh: every sandbox has Ramet's guest/,
  );
});

it("keeps other hooks", () => {
  const preStop = { exec: { command: ["sync"] } };
  expect(withoutAgentRuntime(template([runtime], { postStart, preStop })).spec.containers[0]?.lifecycle).toEqual({
    preStop,
  });
  const own = { postStart: { exec: { command: ["/warm-up"] } } };
  expect(withoutAgentRuntime(template([runtime], own)).spec.containers[0]?.lifecycle).toEqual(own);
  expect(skippedRuntime(template([runtime], own))).toMatch(/^Skipped the init container runtime: /);
});

it.each([
  ["another image", { ...runtime, image: "registry.example/acs/my-agent-runtime:v1" }],
  ["an init container that ends", { name: "runtime", image: runtime.image }],
])("skips nothing for %s", (_, container) => {
  const given = template([container], { postStart });
  expect(withoutAgentRuntime(given)).toBe(given);
  expect(skippedRuntime(given)).toBeUndefined();
});
