import { describe, expect, it } from "vitest";
import { metadata } from "../../../test/setup/volume-samples.ts";
import { templateRevision } from "../../api/pod/restore-spec.ts";
import { fieldsIgnored } from "../../api/fields/find-ignored.ts";
import { Sandbox } from "../../api/kinds/sandbox.ts";
import type { RequestSeal } from "../../api/names/init-request.ts";
import { annotations, labels } from "../../api/names/labels.ts";
import { parsePodTemplate } from "../../api/schema/pod-template.ts";
import { Pod } from "../../api/schema/pod.ts";
import { findCondition, withIgnoredFields } from "../../kube/conditions.ts";
import { gatherIgnored } from "./gather-ignored.ts";

const templateOf = (image: string) => ({ spec: { containers: [{ name: "main", image }] } });
const sandboxOf = (spec: object, phase = "Running", given: Record<string, string> = {}) =>
  Sandbox.parse({
    apiVersion: "agents.kruise.io/v1alpha1",
    kind: "Sandbox",
    metadata: { ...metadata, annotations: given },
    spec,
    status: { phase },
  });
const podOf = (image: string, rest: object = {}) =>
  Pod.parse({
    metadata: {
      ...metadata,
      labels: { [labels.podTemplateHash]: templateRevision(parsePodTemplate(templateOf(image))) },
      ...rest,
    },
    spec: { containers: [{ name: "main", image: "cell" }] },
  });
const seal: RequestSeal = {
  seal: (_, request) => `sealed ${request}`,
  open: (_, text) => text.slice("sealed ".length),
};
const named = (name: string, spec: object) => ({
  template: (key: string) =>
    key === `t/${name}`
      ? {
          apiVersion: "agents.kruise.io/v1alpha1" as const,
          kind: "SandboxTemplate" as const,
          metadata: { ...metadata, name },
          spec,
        }
      : undefined,
});

function gathered(sandbox: Sandbox, pod: Pod | undefined, given: string | object, cache = named("none", {})) {
  const volumeClaims: Record<string, unknown>[] = [];
  const template = {
    template: parsePodTemplate(typeof given === "string" ? templateOf(given) : given),
    borrowed: false,
    contents: {},
    pauseStrategy: undefined,
    volumeClaims,
  };
  return gatherIgnored(sandbox, { template, pod }, { cache: cache as never, seal }).map(({ path }) => path);
}

describe("a running sandbox", () => {
  const own = sandboxOf({ template: templateOf("b") });

  it("reports a template that has changed since its Pod was created", () => {
    expect(gathered(own, podOf("a"), "b")).toEqual(["spec.template"]);
    expect(gathered(own, podOf("b"), "b")).toEqual([]);
  });

  it("reports no change of egress rules, which apply to it", () => {
    const rules = { [annotations.egress]: "{}" };
    const pod = podOf("b", { labels: { ...podOf("b").metadata.labels, [labels.createdBy]: "sandbox" } });
    expect(gathered(own, pod, { ...templateOf("b"), metadata: { annotations: rules } })).toEqual([]);
    expect(gathered(own, pod, { ...templateOf("b"), metadata: { annotations: { a: "b" } } })).toEqual([
      "spec.template",
    ]);
    const before = { ...templateOf("b"), metadata: { labels: { a: "b" }, annotations: rules } };
    const revision = templateRevision(parsePodTemplate(before));
    const earlier = podOf("b", { labels: { a: "b", [labels.podTemplateHash]: revision }, annotations: rules });
    expect(gathered(own, earlier, { ...templateOf("b"), metadata: { labels: { a: "b" } } })).toEqual([]);
  });

  it("names the SandboxTemplate that has changed, and its fields without effect", () => {
    const cache = named("python", { template: templateOf("b"), runtimes: [{ name: "csi" }] });
    expect(gathered(sandboxOf({ templateRef: { name: "python" } }), podOf("a"), "b", cache)).toEqual([
      "SandboxTemplate python: spec.template",
      "SandboxTemplate python: spec.runtimes[0].name csi",
    ]);
  });

  it.each([
    ["without a Pod", own, undefined],
    ["whose Pod is being deleted", own, podOf("a", { deletionTimestamp: "2030-01-01T00:00:00Z" })],
    ["that has ended", sandboxOf({ template: templateOf("b") }, "Failed"), podOf("a")],
    ["whose Pod has no revision", own, podOf("a", { labels: {} })],
  ])("reports no change for a sandbox %s", (_what, sandbox, pod) => {
    expect(gathered(sandbox, pod, "b")).toEqual([]);
  });
});

it.each([
  ["in plain text", annotations.initRuntimeRequest, ""],
  ["sealed", annotations.sealedInitRequest, "sealed "],
])("names the fields of a runtime request %s that the guest does not apply", (_what, key, prefix) => {
  const request = JSON.stringify({ envVars: { A: "1" }, accessToken: "secret", skipRefresh: false });
  expect(gathered(sandboxOf({}, "Running", { [key]: prefix + request }), undefined, "a")).toEqual([
    "metadata.annotations[agents.kruise.io/init-runtime-request].accessToken",
  ]);
  expect(gathered(sandboxOf({}, "Running", { [key]: `${prefix}no JSON` }), undefined, "a")).toEqual([]);
});

describe("the condition", () => {
  const field = { path: "spec.upgradePolicy.type", reason: "NotSupported", why: "none" } as const;
  const at = (second: number) => new Date(Date.UTC(2030, 0, 1, 0, 0, second));

  it("keeps its time while the fields stay, and disappears with them", () => {
    const first = withIgnoredFields(undefined, [field], at(0));
    expect(withIgnoredFields(first, [field], at(5))).toEqual(first);
    const more = withIgnoredFields(first, [field, { ...field, path: "spec.lifecycle" }], at(5));
    expect(findCondition(more, fieldsIgnored)).toMatchObject({
      lastTransitionTime: "2030-01-01T00:00:00Z",
      message: "spec.upgradePolicy.type, spec.lifecycle have no effect: none",
    });
    expect(withIgnoredFields(more, [], at(9))).toEqual([]);
  });
});
