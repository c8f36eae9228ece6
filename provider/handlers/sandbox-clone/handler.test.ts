import { expect, it } from "vitest";
import { Sandbox } from "../../../src/api/kinds/sandbox.ts";
import { RametError } from "../../../src/base/errors.ts";
import type { KubeClient } from "../../../src/kube/kube-client.ts";
import { diffSandboxClone, templateOf } from "./handler.ts";

const clone = {
  name: "dev",
  namespace: "default",
  from: "data",
  ports: [8000],
  timeout: "5 minutes",
  owner: "o/p/s/dev",
};
const nothing = { changes: false, replaces: [], deleteBeforeReplace: false };

it("keeps the ports of its recipe, and is replaced if the program sets other ports", () => {
  const following = { ...clone, portsFollow: true };
  expect(diffSandboxClone(following, { ...following, ports: [9000] })).toEqual(nothing);
  const chosen = { ...clone, portsFollow: false };
  expect(diffSandboxClone(chosen, { ...chosen, ports: [9000] })).toMatchObject({ replaces: ["ports"] });
  expect(diffSandboxClone(following, { ...chosen, ports: [9000] })).toMatchObject({ replaces: ["ports"] });
  expect(diffSandboxClone(chosen, { ...following, ports: [9000] })).toMatchObject({ replaces: ["ports"] });
});

it("treats the ports of a state without portsFollow as the recipe's", () => {
  expect(diffSandboxClone(clone, { ...clone, portsFollow: true, ports: [9000] })).toEqual(nothing);
  expect(diffSandboxClone(clone, { ...clone, portsFollow: false })).toEqual(nothing);
});

it("is replaced if it gets another template", () => {
  const named = { ...clone, templateName: "small" };
  expect(diffSandboxClone(named, named)).toEqual(nothing);
  expect(diffSandboxClone(clone, named)).toMatchObject({ replaces: ["templateName"] });
});

it("names its template, and writes it out with the ports that the program adds", async () => {
  const spec = { template: { spec: { containers: [{ name: "main", image: "python" }] } } };
  const get = (at: object) => Promise.resolve({ metadata: at, spec });
  const client = { of: () => ({ get }) } as unknown as KubeClient;
  const named = { ...clone, templateName: "small", template: { template: { other: true } } };
  expect(await templateOf(client, { ...named, ports: [] }, undefined)).toEqual({ templateRef: { name: "small" } });
  expect(await templateOf(client, named, undefined)).toMatchObject({
    template: { spec: { containers: [{ image: "python", ports: [{ containerPort: 8000 }] }] } },
  });
  expect(await templateOf(client, { ...clone, ports: [] }, undefined)).toEqual({});
});

it("keeps the template of an existing clone, although the named one is gone", async () => {
  const get = () => Promise.reject(new RametError("NotFound", "the SandboxTemplate small does not exist"));
  const client = { of: () => ({ get }) } as unknown as KubeClient;
  const existing = Sandbox.parse({
    apiVersion: "agents.kruise.io/v1alpha1",
    kind: "Sandbox",
    metadata: { name: "dev", namespace: "default", uid: "u", resourceVersion: "1", creationTimestamp: "" },
    spec: { template: { spec: { containers: [{ name: "main", image: "python" }] } } },
  });
  const named = { ...clone, templateName: "small" };
  expect(await templateOf(client, named, existing)).toMatchObject({
    template: { spec: { containers: [{ image: "python", ports: [{ containerPort: 8000 }] }] } },
  });
  await expect(templateOf(client, named, undefined)).rejects.toMatchObject({ code: "NotFound" });
});
