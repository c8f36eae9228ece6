import { expect, it } from "vitest";
import { SandboxClaimSpec } from "../../api/kinds/sandbox-claim.ts";
import { unsupportedRequest } from "./gather.ts";

const described = (spec: object) =>
  unsupportedRequest(SandboxClaimSpec.parse({ templateName: "python", ...spec }))?.describe();

it.each([
  [
    { inplaceUpdate: { image: "other" } },
    /^spec\.inplaceUpdate\.image is not supported: .*root.*SandboxSet with the image other/s,
  ],
  [
    { inplaceUpdate: { resources: { limits: { cpu: "2" } } } },
    /^spec\.inplaceUpdate\.resources is not supported: .*in the template of a SandboxSet/s,
  ],
  [
    { inplaceUpdate: { resources: { requests: { memory: "1Gi" } } } },
    /^spec\.inplaceUpdate\.resources is not supported/,
  ],
  [
    { dynamicVolumesMount: [{ pvName: "data", mountPath: "/data" }] },
    /^spec\.dynamicVolumesMount is not supported: .*volumes\[\].*\/data/s,
  ],
])("rejects %j and suggests an alternative", (spec, sentence) => {
  expect(described(spec)).toMatch(sentence);
  expect(described(spec)).toContain("[InvalidArgument]");
});

it("names all unsupported fields in one error", () => {
  const both = { inplaceUpdate: { image: "a" }, dynamicVolumesMount: [{ pvName: "b", mountPath: "/c" }] };
  expect(described(both)).toMatch(/spec\.inplaceUpdate\.image .*spec\.dynamicVolumesMount /s);
});

it.each([{}, { inplaceUpdate: {} }, { inplaceUpdate: { resources: { limits: {} } } }, { dynamicVolumesMount: [] }])(
  "accepts %j, which requests nothing",
  (spec) => {
    expect(described(spec)).toBeUndefined();
  },
);
