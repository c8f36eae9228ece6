import { expect, it } from "vitest";
import { acsCheckpointSpec, acsClone } from "./acs-clone.ts";

const pod = { containers: [{ name: "my-session", image: "example/a" }] };

it("writes the clone as the page of ACS shows it", () => {
  const labels = { agent: "code-demo", "alibabacloud.com/acs": "true" };
  const { annotations, spec } = acsClone({ template: { metadata: { labels }, spec: pod } }, "id-1");
  expect(annotations).toEqual({ "agents.kruise.io/restore-from": "id-1" });
  expect(spec).toEqual({
    template: {
      metadata: {
        labels,
        annotations: {
          "ops.alibabacloud.com/pause-enabled": "true",
          "checkpoint.alibabacloud.com/restore-from": "id-1",
        },
      },
      spec: pod,
    },
  });
});

it("replaces the origin of a source that is a clone itself, and keeps its other annotations", () => {
  const source = {
    "checkpoint.alibabacloud.com/restore-from": "old",
    "agents.kruise.io/restore-from": "old",
    "ramet.dev/restore-from": "data",
    "example.org/team": "a",
  };
  const { spec } = acsClone({ template: { metadata: { annotations: source }, spec: pod } }, "new");
  expect(spec.template).toMatchObject({
    metadata: {
      annotations: {
        "example.org/team": "a",
        "ops.alibabacloud.com/pause-enabled": "true",
        "checkpoint.alibabacloud.com/restore-from": "new",
      },
    },
  });
  expect(JSON.stringify(spec)).not.toContain("old");
  expect(JSON.stringify(spec)).not.toContain("ramet.dev");
});

it("requests a checkpoint of the Pod, and leaves out what is not set", () => {
  expect(acsCheckpointSpec("code-demo", undefined)).toEqual({ podName: "code-demo", keepRunning: true });
  expect(acsCheckpointSpec("code-demo", ["filesystem"], "7d")).toEqual({
    podName: "code-demo",
    keepRunning: true,
    persistentContents: ["filesystem"],
    ttlAfterFinished: "7d",
  });
});
