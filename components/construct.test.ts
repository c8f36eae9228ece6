import { DependencyResource, isUnknown } from "@pulumi/pulumi";
import alias from "@pulumi/pulumi/proto/alias_pb.js";
import provider from "@pulumi/pulumi/proto/provider_pb.js";
import struct from "google-protobuf/google/protobuf/struct_pb.js";
import { expect, it } from "vitest";
import { configurationFor, optionsOf } from "./construct.ts";

const request = (): InstanceType<typeof provider.ConstructRequest> =>
  new provider.ConstructRequest().setType("ramet:index:SandboxSet").setName("pool");
const { ConstructRequest } = provider;

it("takes the cluster from the provider alone if it names one, and from the stack otherwise", () => {
  const stack: [string, string][] = [
    ["kubernetes:kubeconfig", "A"],
    ["kubernetes:context", "a"],
    ["kubernetes:cluster", "a"],
    ["kubernetes:namespace", "team-a"],
    ["kubernetes:enableServerSideApply", "true"],
    ["agents:size", "3"],
  ];
  const kept = { "kubernetes:enableServerSideApply": "true", "agents:size": "3", "ramet:hosted": "true" };
  for (const key of ["kubeconfig", "context", "cluster"]) {
    expect(configurationFor(stack, { [key]: "B" })).toEqual({ ...kept, [`kubernetes:${key}`]: "B" });
  }
  const named = configurationFor(stack, { context: "b", namespace: "team-b" });
  expect(named).toEqual({ ...kept, "kubernetes:context": "b", "kubernetes:namespace": "team-b" });
  const own = Object.fromEntries(stack);
  expect(configurationFor(stack, {})).toEqual({ ...own, "ramet:hosted": "true" });
  expect(configurationFor(stack, { namespace: "team-b" })).toMatchObject({ ...own, "kubernetes:namespace": "team-b" });
});

it("finds the state of a component that was below the stack, or below another component", () => {
  const before = new alias.Alias.Spec().setNoparent(true);
  const below = new alias.Alias.Spec().setName("old").setParenturn("urn:pulumi:dev::agents::a:b:C::c");
  const aliases = [before, below, new alias.Alias.Spec().setType("a:b:D")].map((spec) =>
    new alias.Alias().setSpec(spec),
  );
  const { aliases: found } = optionsOf(request().setAliasesList([...aliases, new alias.Alias().setUrn("urn")]));
  expect(found).toStrictEqual([
    { parent: undefined },
    { name: "old", parent: "urn:pulumi:dev::agents::a:b:C::c" },
    { type: "a:b:D" },
    "urn",
  ]);
});

it("passes the options that components have: parent, time limits, protection, hooks and the trigger of a replacement", () => {
  const hooks = new ConstructRequest.ResourceHooksBinding().setBeforeCreateList(["check"]).setAfterDeleteList(["tell"]);
  const given = request()
    .setParent("urn:pulumi:dev::agents::a:b:C::c")
    .setDeletedwith("urn:pulumi:dev::agents::a:b:D::d")
    .setProtect(true)
    .setRetainondelete(true)
    .setResourceHooks(hooks)
    .setReplacementTrigger(struct.Value.fromJavaScript({ revision: 3 }))
    .setDeletebeforereplace(false);
  const { parent, deletedWith, hooks: bound, ...options } = optionsOf(given);
  expect([parent, deletedWith].map((one) => one instanceof DependencyResource)).toEqual([true, true]);
  expect(options).toMatchObject({ protect: true, retainOnDelete: true, replacementTrigger: { revision: 3 } });
  const names = [bound?.beforeCreate, bound?.afterDelete].map((list) => list?.map((hook) => (hook as Named).name));
  expect(names).toEqual([["check"], ["tell"]]);
  expect(optionsOf(request())).not.toHaveProperty("replacementTrigger");
  const later = request().setReplacementTrigger(struct.Value.fromJavaScript(unknown));
  expect(isUnknown(optionsOf(later).replacementTrigger)).toBe(true);
});

interface Named {
  name: string;
}
const unknown = "04da6b54-80e4-46f7-96ec-b56ff0331ba9";

it.each([
  ["replaceWith", request().setReplaceWithList(["urn"])],
  ["deleteBeforeReplace", request().setDeletebeforereplace(true)],
  ["additionalSecretOutputs", request().setAdditionalsecretoutputsList(["data"])],
])("refuses the option %s, which would have no effect", (option, given) => {
  expect(() => optionsOf(given)).toThrow(
    expect.objectContaining({
      code: "NotSupported",
      message: `pool: components of Ramet have no option ${option}`,
    }) as Error,
  );
});
