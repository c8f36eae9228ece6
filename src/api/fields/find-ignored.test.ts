import { describe, expect, it } from "vitest";
import { describeIgnored, findIgnored, findIgnoredInTemplate, ignoredCondition } from "./find-ignored.ts";

const paths = (...args: Parameters<typeof findIgnored>) => findIgnored(...args).map(({ path }) => path);
const container = { name: "main", image: "python" };

describe("the fields of an object without effect", () => {
  it("are named with their index and, where it helps, their value", () => {
    const spec = {
      runtimes: [{ name: "csi" }, { name: "agent-runtime" }],
      upgradePolicy: { type: "Recreate" },
      lifecycle: { preUpgrade: { exec: { command: ["true"] }, timeoutSeconds: 60 } },
      persistentContents: ["ip", "podInfo", "memory", "filesystem", "gpu-memory"],
      templateRef: { name: "t", kind: "PodTemplate", apiVersion: "v1" },
      pauseStrategy: { hibernateStrategy: { type: "Suspend" } },
    };
    expect(paths("Sandbox", { spec })).toEqual([
      "spec.runtimes[1].name agent-runtime",
      "spec.runtimes[0].name csi",
      "spec.upgradePolicy.type",
      "spec.lifecycle",
      "spec.pauseStrategy.hibernateStrategy.type Suspend",
      "spec.persistentContents[0] ip",
      "spec.persistentContents[4] gpu-memory",
      "spec.templateRef.kind PodTemplate",
      "spec.templateRef.apiVersion v1",
    ]);
  });

  it.each([
    ["nothing", {}],
    ["empty fields", { runtimes: [], upgradePolicy: {}, lifecycle: { preUpgrade: {} }, persistentContents: [] }],
    [
      "what Ramet does anyway",
      {
        persistentContents: ["podInfo", "memory", "filesystem"],
        pauseStrategy: { type: "Hibernate", hibernateStrategy: { type: "Snapshot" } },
        templateRef: { name: "t", kind: "SandboxTemplate", apiVersion: "agents.kruise.io/v1alpha1" },
      },
    ],
    [
      "a template with the fields of a container",
      {
        template: {
          metadata: { annotations: { "ops.alibabacloud.com/pause-enabled": "true" } },
          spec: {
            restartPolicy: "Never",
            automountServiceAccountToken: false,
            securityContext: { runAsUser: 1, runAsNonRoot: false },
            containers: [
              {
                ...container,
                command: ["a"],
                tty: false,
                ports: [{ containerPort: 1, protocol: "TCP" }],
                lifecycle: { postStart: { exec: { command: ["b"] } } },
                securityContext: { runAsUser: 1, privileged: false },
              },
              { name: "other", image: "b", tty: true, securityContext: { capabilities: { drop: ["ALL"] } } },
            ],
          },
        },
      },
    ],
  ])("are none for %s", (_what, spec) => {
    expect(paths("Sandbox", { spec })).toEqual([]);
  });

  it("are found in the main container and the Pod of a template", () => {
    const securityContext = { runAsUser: 1, capabilities: { drop: ["ALL"] }, allowPrivilegeEscalation: false };
    const main = { ...container, tty: true, terminationMessagePolicy: "File", securityContext, resizePolicy: null };
    const pod = { containers: [main], restartPolicy: "Always", hostAliases: [{ ip: "1.2.3.4", hostnames: ["a"] }] };
    expect(paths("SandboxSet", { spec: { replicas: 1, template: { spec: pod } } })).toEqual([
      "spec.template.spec.containers[0].tty",
      "spec.template.spec.containers[0].terminationMessagePolicy",
      "spec.template.spec.containers[0].securityContext.capabilities",
      "spec.template.spec.containers[0].securityContext.allowPrivilegeEscalation",
      "spec.template.spec.restartPolicy",
      "spec.template.spec.hostAliases",
    ]);
  });

  it("are annotations of OpenKruise Agents, without their values", () => {
    const metadata = {
      annotations: { "agents.kruise.io/cleanup-enabled": "true", "agents.kruise.io/runtime-access-token": "secret" },
    };
    const found = findIgnored("Sandbox", { metadata, spec: {} });
    expect(found.map(({ path }) => path)).toEqual([
      "metadata.annotations[agents.kruise.io/cleanup-enabled]",
      "metadata.annotations[agents.kruise.io/runtime-access-token]",
    ]);
    expect(JSON.stringify(found)).not.toContain("secret");
  });

  it("are none where a template has other types than Kubernetes", () => {
    expect(paths("Sandbox", { spec: { template: { spec: { containers: "none", securityContext: [1] } } } })).toEqual(
      [],
    );
    expect(paths("Sandbox", { spec: { template: null, runtimes: [null, 3, { name: 4 }] } })).toEqual([
      "spec.runtimes[2].name",
    ]);
  });

  it("are found in the SandboxTemplate that an object names, unless the object has the field itself", () => {
    const template = { name: "python", spec: { runtimes: [{ name: "csi" }], persistentContents: ["ip"] } };
    expect(findIgnoredInTemplate(template, { runtimes: [] }).map(({ path }) => path)).toEqual([
      "SandboxTemplate python: spec.persistentContents[0] ip",
    ]);
  });
});

describe("the condition", () => {
  const found = (count: number, length = 1) =>
    findIgnored("SandboxClaim", {
      spec: { runtimes: Array.from({ length: count }, (_, index) => ({ name: `${index}`.padEnd(length, "x") })) },
    });

  it("is absent without such fields", () => {
    expect(ignoredCondition([])).toBeUndefined();
  });

  it("names the fields and why they have no effect", () => {
    const spec = { runtimes: [{ name: "csi" }, { name: "agent-runtime" }] };
    expect(ignoredCondition(findIgnored("SandboxClaim", { spec }))).toEqual({
      type: "FieldsIgnored",
      status: "True",
      reason: "SeveralReasons",
      message:
        "spec.runtimes[1].name agent-runtime has no effect: every sandbox has Ramet's guest, which serves the interface of envd. " +
        "spec.runtimes[0].name csi has no effect: Ramet adds no sidecars; put the containers and volumes that you need into the template",
    });
  });

  it("has the reason of its fields if they have only one", () => {
    expect(ignoredCondition(found(2))).toMatchObject({ reason: "NotSupported" });
  });

  it("counts fields beyond the tenth", () => {
    const text = describeIgnored(found(13));
    expect(text).toContain("spec.runtimes[9].name 9 have no effect");
    expect(text).not.toContain("runtimes[10]");
    expect(text).toMatch(/, and 3 more fields$/);
  });

  it("has at most 1024 characters, whatever the names of fields are", () => {
    expect(describeIgnored(found(5000, 5000)).length).toBeLessThanOrEqual(1024);
    const keys = Object.fromEntries(Array.from({ length: 2000 }, (_, index) => [`é\n${index}`.repeat(3000), 1]));
    const spec = { template: { spec: { containers: [{ ...container, ...keys }] } } };
    const text = describeIgnored(findIgnored("Sandbox", { spec }));
    expect(text.length).toBeLessThanOrEqual(1024);
    expect(text).toMatch(/^[\x20-\x7e…]*$/);
    expect(text).toMatch(/, and 1990 more fields$/);
  });
});
