import { expect, it } from "vitest";
import { cellResources } from "./cell-container.ts";

it("adds the cell's memory to request and limit, and its CPU to the limit only", () => {
  const resources = { requests: { cpu: "50m", memory: "64Mi" }, limits: { cpu: "2", memory: "512Mi" } };
  expect(cellResources(resources)).toEqual({
    requests: { cpu: "50m", memory: "192Mi" },
    limits: { cpu: "2100m", memory: "640Mi" },
  });
});

it("raises a small CPU limit to one CPU, and keeps what the scheduler counts", () => {
  expect(cellResources({ limits: { cpu: "100m" } })).toEqual({ requests: { cpu: "100m" }, limits: { cpu: "1000m" } });
});

it("does not raise a small CPU limit where only the container's limits bound the sandbox", () => {
  const limits = { cpu: "100m", memory: "512Mi" };
  expect(cellResources({ limits }, false).limits).toEqual({ cpu: "200m", memory: "640Mi" });
});

it("keeps other resources, claims, and a container without any", () => {
  expect(cellResources({})).toEqual({});
  expect(cellResources({ requests: { cpu: 1 } })).toEqual({ requests: { cpu: 1 } });
  const gpu = { limits: { "nvidia.com/gpu": 1, memory: "500M" }, claims: [{ name: "a" }] };
  expect(cellResources(gpu)).toEqual({
    limits: { "nvidia.com/gpu": 1, memory: "634217728" },
    requests: { "nvidia.com/gpu": 1, memory: "634217728" },
    claims: [{ name: "a" }],
  });
});

it("has room for one checkpoint, plain and encrypted, in the limit of ephemeral storage, and requests what the template does", () => {
  expect(cellResources({ limits: { memory: "512Mi", "ephemeral-storage": "10Gi" } })).toEqual({
    requests: { memory: "640Mi", "ephemeral-storage": "10Gi" },
    limits: { memory: "640Mi", "ephemeral-storage": `${3 * 10 * 1024 + 2 * 512 + 256}Mi` },
  });
});
