import { describe, expect, it } from "vitest";
import { Checkpoint } from "../../api/kinds/checkpoint.ts";
import { annotations } from "../../api/names/labels.ts";
import { parsePodTemplate } from "../../api/schema/pod-template.ts";
import { restoreSpec } from "../../api/pod/restore-spec.ts";
import { describeDifference, templateDifference } from "../../api/snapshot/template-difference.ts";
import { originFrom } from "./origin.ts";

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

it("accepts files of a read-only root under a read-only or a writable one, which memory does not", () => {
  const readOnly = spec({ securityContext: { readOnlyRootFilesystem: true } });
  expect(templateDifference(readOnly, spec({}), false)).toBeUndefined();
  expect(templateDifference(readOnly, readOnly, false)).toBeUndefined();
  expect(templateDifference(readOnly, spec({ image: "node:22" }), false)?.field).toBe("containers[0].image");
  expect(templateDifference(readOnly, spec({}), true)?.field).toMatch(/readOnlyRootFilesystem$/);
});

describe("files alone", () => {
  const digest = (digit: string) => `sha256:${digit.repeat(64)}`;
  const captured = parsePodTemplate({ spec: { containers: [main], volumes: [{ name: "a", emptyDir: {} }] } });
  const checkpoint = (contents: string[]) =>
    Checkpoint.parse({
      apiVersion: "agents.kruise.io/v1alpha1",
      kind: "Checkpoint",
      metadata: {
        name: "c",
        namespace: "t",
        uid: "u",
        resourceVersion: "1",
        creationTimestamp: "2030-01-01T00:00:00Z",
        annotations: {
          [annotations.image]: JSON.stringify({
            name: main.image,
            reference: `python@${digest("a")}`,
            config: {},
          }),
        },
      },
      spec: { sandboxName: "a" },
      status: {
        phase: "Succeeded",
        checkpointId: "id",
        ramet: {
          parts: [
            {
              backend: "cell",
              handle: digest("b"),
              contents,
              cutAt: "2030-01-01T00:00:00Z",
              sizeBytes: 1,
              consistency: "crash",
            },
          ],
          template: restoreSpec(captured),
        },
      },
    });
  const installed = {
    backends: { forParts: () => [] as never },
    engines: { problemOf: () => undefined },
  };
  const originOf = (contents: string[], change: Record<string, unknown>, volumes: object[] = []) =>
    originFrom(
      checkpoint(contents),
      parsePodTemplate({ spec: { containers: [{ ...main, ...change }], volumes } }),
      installed,
    );

  it("start with other resources, variables, commands and mounts, and report the mounts that hide them", () => {
    const change = {
      args: ["-m", "pdb"],
      env: [{ name: "A", value: "1" }],
      resources: { limits: { memory: "1Gi", cpu: "1", "ephemeral-storage": "1Gi" } },
      volumeMounts: [...main.volumeMounts, { name: "b", mountPath: "/b" }],
    };
    const origin = originOf(["filesystem"], change, [
      { name: "a", emptyDir: {} },
      { name: "b", emptyDir: {} },
    ]);
    expect(origin).toMatchObject({ kind: "checkpoint", hidden: ["/b"] });
    expect(originOf(["filesystem"], {})).not.toHaveProperty("hidden");
  });

  it("start with the captured image under another name, which memory does not", () => {
    const change = { image: `mirror/python@${digest("a")}` };
    expect(originOf(["filesystem"], change)).toMatchObject({ kind: "checkpoint" });
    expect(originOf(["memory", "filesystem"], change)).toMatchObject({ error: { code: "TemplateMismatch" } });
  });

  it("are refused with another image, which the hint names", () => {
    expect(originOf(["filesystem"], { image: "node:22" })).toMatchObject({
      error: {
        code: "TemplateMismatch",
        message:
          'The sandbox cannot be restored from the checkpoint id: containers[0].image is "python:3.12" in the checkpoint and "node:22" here',
        hint: "Its files are on top of the image python:3.12: use a template with that image and a writable root, or omit spec.template",
      },
    });
  });
});
