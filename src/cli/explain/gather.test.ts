import { describe, expect, it } from "vitest";
import type { KubeObject } from "../../kube/object.ts";
import { ignoredReport } from "../object/get.ts";
import type { Explanation } from "./explanation.ts";
import { withIgnored } from "./other-kind-rules.ts";

const since = "2030-01-01T00:00:00Z";
const metadata = { name: "a", namespace: "t", uid: "u", resourceVersion: "1", creationTimestamp: since };
const apiVersion = "agents.kruise.io/v1alpha1";
const withStatus = (status: object): KubeObject => Object.assign({ apiVersion, kind: "Sandbox", metadata }, { status });
const condition = {
  type: "FieldsIgnored",
  status: "True",
  reason: "TemplateChanged",
  message: "spec.template has no effect: the Pod was created from an earlier version",
  lastTransitionTime: since,
};
const healthy: Explanation = { state: "healthy", cause: "It is Running", retry: "None is needed", action: "Nothing" };

describe("an object with fields without effect", () => {
  const report = ignoredReport("sandbox", withStatus({ conditions: [condition] }));

  it("is degraded, with the fields and the remedy", () => {
    expect(withIgnored(healthy, report)).toMatchObject({
      state: "degraded",
      cause: `It is Running; but not everything in its manifest applies: ${condition.message}`,
      reason: "TemplateChanged",
      since,
      action: expect.stringContaining("Create another sandbox") as string,
    });
  });

  it("is explained by a graver problem if it has one", () => {
    const stuck: Explanation = { ...healthy, state: "stuck" };
    expect(withIgnored(stuck, report)).toBe(stuck);
  });
});

it.each([
  ["no status", { apiVersion, kind: "Sandbox", metadata }],
  ["no such condition", withStatus({ conditions: [{ ...condition, type: "Ready" }] })],
  ["an unreadable status", withStatus({ conditions: "none" })],
])("reports nothing for an object with %s", (_what, object) => {
  expect(ignoredReport("sandbox", object)).toBeUndefined();
  expect(withIgnored(healthy, undefined)).toBe(healthy);
});

it("compares a SandboxTemplate, which has no status, with the table", () => {
  const withSpec = (spec: object): KubeObject =>
    Object.assign({ apiVersion, kind: "SandboxTemplate", metadata }, { spec });
  expect(ignoredReport("template", withSpec({ runtimes: [{ name: "csi" }] }))).toMatchObject({
    reason: "NotSupported",
    message: expect.stringMatching(/^spec\.runtimes\[0\]\.name csi has no effect/) as string,
  });
  expect(ignoredReport("template", withSpec({}))).toBeUndefined();
});
