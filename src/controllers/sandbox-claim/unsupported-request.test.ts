import { expect, it } from "vitest";
import { SandboxClaimSpec } from "../../api/kinds/sandbox-claim.ts";
import { unsupportedRequest } from "./gather.ts";

const told = (spec: object) =>
  unsupportedRequest(SandboxClaimSpec.parse({ templateName: "python", ...spec }))?.describe();

it.each([
  [
    { inplaceUpdate: { image: "other" } },
    /^spec\.inplaceUpdate\.image cannot be had: .*root.*SandboxSet with the image other/s,
  ],
  [
    { inplaceUpdate: { resources: { limits: { cpu: "2" } } } },
    /^spec\.inplaceUpdate\.resources cannot be had: .*in the template of a SandboxSet/s,
  ],
  [{ inplaceUpdate: { resources: { requests: { memory: "1Gi" } } } }, /^spec\.inplaceUpdate\.resources cannot be had/],
  [
    { dynamicVolumesMount: [{ pvName: "data", mountPath: "/data" }] },
    /^spec\.dynamicVolumesMount cannot be had: .*volumes\[\].*\/data/s,
  ],
])("%j is refused with what to do instead", (spec, sentence) => {
  expect(told(spec)).toMatch(sentence);
  expect(told(spec)).toContain("[InvalidArgument]");
});

it("names all that cannot be had at once", () => {
  const both = { inplaceUpdate: { image: "a" }, dynamicVolumesMount: [{ pvName: "b", mountPath: "/c" }] };
  expect(told(both)).toMatch(/spec\.inplaceUpdate\.image .*spec\.dynamicVolumesMount /s);
});

it.each([{}, { inplaceUpdate: {} }, { inplaceUpdate: { resources: { limits: {} } } }, { dynamicVolumesMount: [] }])(
  "%j wishes nothing, and is served",
  (spec) => {
    expect(told(spec)).toBeUndefined();
  },
);
