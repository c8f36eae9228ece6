import { expect, it } from "vitest";
import { metadata } from "../../../test/setup/volume-samples.ts";
import { Checkpoint } from "../../api/kinds/checkpoint.ts";
import { SandboxTemplate } from "../../api/kinds/sandbox-template.ts";
import { apiVersion } from "../../api/schema/kind.ts";
import { resolveTemplate } from "./resolve-template.ts";

const checkpoint = Checkpoint.parse({ apiVersion, kind: "Checkpoint", metadata, spec: { sandboxName: "a" } });
const policy = "ramet.dev/on-disruption";
const kept = SandboxTemplate.parse({
  apiVersion,
  kind: "SandboxTemplate",
  metadata,
  spec: {
    template: {
      metadata: { annotations: { [policy]: "End", note: "kept" } },
      spec: { containers: [{ name: "main", image: "python" }] },
    },
  },
});
const cache = { template: () => kept, templatesOwnedBy: () => [kept] };
const annotationsOf = (spec: object, annotations: Record<string, string>) => {
  const found = resolveTemplate({ metadata: { namespace: "t", annotations }, spec }, cache, checkpoint);
  return "problem" in found ? found.problem.message : found.template.metadata?.annotations;
};

it("puts what a sandbox says of the end of its Pod into the template of its checkpoint", () => {
  expect(annotationsOf({}, { [policy]: "Pause", other: "x" })).toEqual({ [policy]: "Pause", note: "kept" });
  expect(annotationsOf({}, {})).toEqual({ [policy]: "End", note: "kept" });
  expect(annotationsOf({}, { [policy]: "pause" })).toContain("metadata.annotations[ramet.dev/on-disruption]");
  // A template that is named says it itself.
  expect(annotationsOf({ templateRef: { name: "a" } }, { [policy]: "Pause" })).toEqual({
    [policy]: "End",
    note: "kept",
  });
});
