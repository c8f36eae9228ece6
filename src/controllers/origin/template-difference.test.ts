import { expect, it } from "vitest";
import { parsePodTemplate } from "../../api/schema/pod-template.ts";
import { restoreSpec } from "../../api/pod/restore-spec.ts";
import { describeDifference, templateDifference } from "./origin.ts";

const main = {
  name: "main",
  image: "python:3.12",
  args: ["-m", "http.server"],
  volumeMounts: [{ name: "a", mountPath: "/a" }],
};
const spec = (change: Record<string, unknown>) =>
  restoreSpec(parsePodTemplate({ spec: { containers: [{ ...main, ...change }] } }));

it.each([
  [{ image: "node:22" }, 'containers[0].image is "python:3.12" in the checkpoint and "node:22" here'],
  [{ args: ["-m", "pdb"] }, 'containers[0].args[1] is "http.server" in the checkpoint and "pdb" here'],
  [{ args: ["-m"] }, 'containers[0].args[1] is "http.server" in the checkpoint and not set here'],
  [{ command: ["sh"] }, 'containers[0].command[0] is not set in the checkpoint and "sh" here'],
  [{ workingDir: "/srv" }, 'containers[0].workingDir is not set in the checkpoint and "/srv" here'],
  [{ securityContext: { runAsUser: 7 } }, "containers[0].securityContext.runAsUser is 0 in the checkpoint and 7 here"],
  [
    { volumeMounts: [{ name: "a", mountPath: "/a", readOnly: true }] },
    "containers[0].volumeMounts[/a].readOnly is false in the checkpoint and true here",
  ],
  [{ volumeMounts: [] }, 'containers[0].volumeMounts[/a].mountPath is "/a" in the checkpoint and not set here'],
])("names the difference in %j", (change, sentence) => {
  const difference = templateDifference(spec({}), spec(change), true);
  expect(difference && describeDifference(difference)).toBe(sentence);
});

it("names an emptyDir that becomes another volume or changes its size", () => {
  const withVolume = (source: object) =>
    restoreSpec(parsePodTemplate({ spec: { containers: [main], volumes: [{ name: "a", ...source }] } }));
  const own = withVolume({ emptyDir: {} });
  const named = [withVolume({ configMap: { name: "c" } }), withVolume({ emptyDir: { sizeLimit: 1 } })].map(
    (clone) => templateDifference(own, clone, true)?.field,
  );
  expect(named).toEqual([
    "the own emptyDir of containers[0].volumeMounts[/a]",
    "the emptyDir.sizeLimit of containers[0].volumeMounts[/a]",
  ]);
});

it("ignores fields that a restore does not compare", () => {
  expect(templateDifference(spec({}), spec({ env: [{ name: "A", value: "1" }], name: "other" }), true)).toBeUndefined();
});

it("accepts files under any template with the same image and a writable root", () => {
  const others = { args: ["-m", "pdb"], command: ["sh"], workingDir: "/srv", securityContext: { runAsUser: 7 } };
  expect(templateDifference(spec({}), spec({ ...others, volumeMounts: [] }), false)).toBeUndefined();
  expect(templateDifference(spec({}), spec({ image: "node:22" }), false)?.field).toBe("containers[0].image");
  expect(templateDifference(spec({}), spec({ securityContext: { readOnlyRootFilesystem: true } }), false)?.field).toBe(
    "containers[0].securityContext.readOnlyRootFilesystem",
  );
});
