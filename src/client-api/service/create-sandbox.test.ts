import { describe, expect, it } from "vitest";
import { withStorage } from "./create-sandbox.ts";

const template = {
  metadata: { labels: { a: "b" } },
  spec: {
    containers: [
      { name: "main", image: "x" },
      { name: "side", image: "y" },
    ],
  },
};

describe("withStorage", () => {
  it("adds a claim, and mounts it in the first container", () => {
    const spec = withStorage(
      { template, persistentContents: ["filesystem"] },
      { size: "1Gi", mountPath: "/workspace" },
    );
    expect(spec).toEqual({
      persistentContents: ["filesystem"],
      template: {
        metadata: { labels: { a: "b" } },
        spec: {
          containers: [
            { name: "main", image: "x", volumeMounts: [{ name: "workspace", mountPath: "/workspace" }] },
            { name: "side", image: "y" },
          ],
        },
      },
      volumeClaimTemplates: [
        {
          metadata: { name: "workspace" },
          spec: { accessModes: ["ReadWriteOnce"], resources: { requests: { storage: "1Gi" } } },
        },
      ],
    });
  });

  it("names the class if there is one", () => {
    const spec = withStorage({ template }, { size: "1Gi", storageClass: "fast", mountPath: "/data" });
    expect(spec.volumeClaimTemplates).toMatchObject([{ spec: { storageClassName: "fast" } }]);
  });

  it("rejects a template that has the volume already", () => {
    const mounted = {
      spec: { containers: [{ name: "main", image: "x", volumeMounts: [{ name: "other", mountPath: "/workspace" }] }] },
    };
    expect(() => withStorage({ template: mounted }, { size: "1Gi", mountPath: "/workspace" })).toThrow("has a volume");
  });
});
