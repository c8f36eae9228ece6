import { describe, expect, it } from "vitest";
import { annotations } from "../names/labels.ts";
import { CellConfig } from "../wire/cell-api.ts";
import { cellPod } from "./cell-pod.ts";
import {
  administratorsInterval,
  chosenDisruption,
  defaultDisruptionPolicy,
  type DisruptionPolicy,
  graceSecondsFor,
  intervalAnnotation,
  leastHeldSeconds,
} from "./disruption.ts";
import { parsePodTemplate } from "../schema/pod-template.ts";

const owner = { metadata: { name: "a", namespace: "team", uid: "u-1" }, spec: {} };
const options = { cellImage: "ramet/cell:1", publicKey: "key", start: "boot" as const };
const pod = (
  container: Record<string, unknown>,
  spec: Record<string, unknown> = {},
  claims?: Record<string, unknown>[],
) =>
  cellPod(
    { ...owner, spec: { volumeClaimTemplates: claims } },
    parsePodTemplate({
      metadata: { labels: { agent: "demo" }, annotations: { "ramet.dev/restore-from": "cp" } },
      spec: {
        ...spec,
        containers: [
          { name: "main", image: "python:3.12", ...container },
          { name: "side", image: "s" },
        ],
      },
    }),
    options,
  );
const main = (made: ReturnType<typeof pod>) => made.spec.containers[0]!;

it("sets the Sandbox as the Pod's owner, and labels the Pod for selectors", () => {
  const { metadata, spec } = pod({});
  expect(metadata).toMatchObject({
    name: "a",
    namespace: "team",
    labels: {
      agent: "demo",
      "agents.kruise.io/created-by": "sandbox",
      "agents.kruise.io/sandbox-name": "a",
      "pod-template-hash": expect.stringMatching(/^[a-z0-9]{9}$/) as string,
      "ramet.dev/cell": "true",
    },
    annotations: { "agents.kruise.io/created-by": "sandbox", "ramet.dev/restore-from": "cp" },
    ownerReferences: [{ kind: "Sandbox", name: "a", uid: "u-1", controller: true }],
  });
  expect(spec).toMatchObject({ restartPolicy: "Never", automountServiceAccountToken: false });
});

it("replaces the main container by the cell, and mounts the container's image as the root", () => {
  const made = pod({ imagePullPolicy: "Always" });
  expect(made.spec.containers.map(({ name, image }) => [name, image])).toEqual([
    ["main", "ramet/cell:1"],
    ["side", "s"],
  ]);
  expect(made.spec.volumes).toEqual([
    { name: "ramet-root", image: { reference: "python:3.12", pullPolicy: "Always" } },
    { name: "ramet-cell", emptyDir: {} },
  ]);
  expect(main(made).volumeMounts).toContainEqual({ name: "ramet-root", mountPath: "/ramet/root", readOnly: true });
  expect(main(made).readinessProbe).toMatchObject({ httpGet: { path: "/readyz", port: 49980 } });
});

it("escapes the cell's configuration so that the kubelet's expansion leaves it unchanged", () => {
  const made = pod({ args: ["$$HOME", "$(NONE)", "a$$b"] });
  const text = main(made).env?.find(({ name }) => name === "RAMET_CELL")?.value ?? "";
  expect(text).not.toContain("$");
  const config = CellConfig.parse(JSON.parse(text));
  expect(config.container.args).toEqual(["$HOME", "$(NONE)", "a$b"]);
  expect(config).toMatchObject({
    start: "boot",
    rootPath: "/ramet/root",
    sandbox: { namespace: "team", name: "a", uid: "u-1" },
  });
});

it("keeps the sandbox's files on disk, or in memory if the template says so, with the size of its limit", () => {
  const template = (medium: string | undefined) =>
    parsePodTemplate({
      metadata: { annotations: medium === undefined ? {} : { "ramet.dev/writable-layer": medium } },
      spec: {
        containers: [{ name: "main", image: "a", resources: { limits: { "ephemeral-storage": "3Gi" } } }],
      },
    });
  const config = (medium?: string) => {
    const env = cellPod(owner, template(medium), options).spec.containers[0]?.env ?? [];
    return CellConfig.parse(JSON.parse(env.find(({ name }) => name === "RAMET_CELL")?.value ?? ""));
  };
  expect(config().container.resources).toEqual({ storageBytes: 3 * 1024 ** 3 });
  expect(config()).not.toHaveProperty("layerInMemory");
  expect(config("disk")).not.toHaveProperty("layerInMemory");
  expect(config("memory").layerInMemory).toBe(true);
  expect(config()).not.toHaveProperty("layerBytes");
  const [cell] = cellPod(owner, template(undefined), { ...options, layerBytes: 5 }).spec.containers;
  expect(cell?.env?.find(({ name }) => name === "RAMET_CELL")?.value).toContain('"layerBytes":5');
  expect(() => config("ram")).toThrow(/\[ramet.dev\/writable-layer\]: "ram" is not a medium; use disk or memory/);
});

it("gives the cell the namespace's directory of the node, if it has one, and to no other container", () => {
  const nodeCache = { path: "/var/lib/ramet/cache/uid-of-a", sizeBytes: 7 };
  const template = parsePodTemplate({
    spec: {
      containers: [
        { name: "main", image: "a" },
        { name: "side", image: "s" },
      ],
    },
  });
  const { volumes, containers } = cellPod(owner, template, { ...options, nodeCache }).spec;
  const hostPath = { path: nodeCache.path, type: "DirectoryOrCreate" };
  expect(volumes).toContainEqual({ name: "ramet-node-cache", hostPath });
  expect(containers[0]?.volumeMounts).toContainEqual({ name: "ramet-node-cache", mountPath: "/run/ramet/node-cache" });
  expect(containers[0]?.env?.find(({ name }) => name === "RAMET_CELL")?.value).toContain('"nodeCacheBytes":7');
  expect(containers[1]).not.toHaveProperty("volumeMounts");
});

it("refuses a container that would mount the cell's directory", () => {
  for (const name of ["ramet-cell", "ramet-node-cache"]) requireRefused(name);
});

function requireRefused(name: string): void {
  const side = { name: "side", image: "s", volumeMounts: [{ name, mountPath: "/cell" }] };
  for (const spec of [
    { containers: [{ name: "main", image: "a" }, side] },
    { containers: [{ name: "main", image: "a" }], initContainers: [side] },
    { containers: [{ ...side, name: "main" }] },
    { containers: [{ name: "main", image: "a" }], volumes: [{ name, emptyDir: {} }] },
  ])
    expect(() => cellPod(owner, parsePodTemplate({ spec }), options)).toThrow(
      `spec.template.spec: the volume ${name} is the cell's own`,
    );
}

it("prefixes the sandbox's variables so that the cell does not use them", () => {
  const made = pod({
    env: [
      { name: "NODE_OPTIONS", value: "--inspect" },
      { name: "TOKEN", valueFrom: { secretKeyRef: { name: "s", key: "k" } } },
    ],
    envFrom: [{ prefix: "X_", configMapRef: { name: "c" } }, { secretRef: { name: "d" } }],
  });
  expect(main(made).env?.map(({ name }) => name)).toEqual(["RAMET_ENV_TOKEN", "RAMET_CELL"]);
  expect(main(made)["envFrom"]).toEqual([
    { prefix: "RAMET_ENV_X_", configMapRef: { name: "c" } },
    { prefix: "RAMET_ENV_", secretRef: { name: "d" } },
  ]);
});

it("keeps the meaning of probes, hooks, resources, volumes and the grace period", () => {
  const made = pod(
    {
      resources: { limits: { memory: "1Gi" } },
      readinessProbe: { tcpSocket: { port: 8000 }, periodSeconds: 3 },
      livenessProbe: { exec: { command: ["true"] } },
      lifecycle: { postStart: { exec: { command: ["/start"] } } },
      volumeMounts: [{ name: "v", mountPath: "/data", subPathExpr: "$(A)/$(B)" }],
      env: [
        { name: "A", value: "x" },
        { name: "B", valueFrom: { fieldRef: { fieldPath: "metadata.name" } } },
      ],
    },
    { volumes: [{ name: "v", emptyDir: {} }], terminationGracePeriodSeconds: 1, nodeSelector: { disk: "ssd" } },
    [{ metadata: { name: "home" }, spec: {} }],
  );
  expect(main(made)).toMatchObject({
    resources: { limits: { memory: "1152Mi" }, requests: { memory: "1152Mi" } },
    readinessProbe: { httpGet: { path: "/tcpz/8000", port: 49980 }, periodSeconds: 3 },
    livenessProbe: { exec: { command: ["ramet", "cell", "exec", "--", "true"] } },
    lifecycle: { postStart: { exec: { command: ["ramet", "cell", "exec", "--at-start", "--", "/start"] } } },
  });
  expect(main(made).volumeMounts?.[0]).toEqual({
    name: "v",
    mountPath: "/ramet/mounts/0",
    subPathExpr: "x/$(RAMET_ENV_B)",
  });
  expect(made.spec).toMatchObject({ terminationGracePeriodSeconds: 1, nodeSelector: { disk: "ssd" } });
  expect(made.spec.volumes?.slice(0, 2)).toEqual([
    { name: "v", emptyDir: {} },
    { name: "home", persistentVolumeClaim: { claimName: "home-a" } },
  ]);
});

describe("the end of a Pod by others", () => {
  const spec = { containers: [{ name: "main", image: "python" }] };
  const ofTemplate = (own: object, onDisruption?: DisruptionPolicy) =>
    cellPod(owner, parsePodTemplate({ spec, ...own }), { ...options, onDisruption });
  const configOf = (made: ReturnType<typeof pod>) =>
    CellConfig.parse(JSON.parse(main(made).env?.find(({ name }) => name === "RAMET_CELL")?.value ?? ""));
  const evictable = "cluster-autoscaler.kubernetes.io/safe-to-evict";

  it("is not left to the cluster autoscaler during a build of a snapshot", () => {
    const evictableOf = (isBuild: boolean) =>
      cellPod(owner, parsePodTemplate({ spec }), { ...options, onDisruption: "Migrate", isBuild }).metadata.annotations[
        evictable
      ];
    expect([evictableOf(false), evictableOf(true)]).toEqual(["true", undefined]);
  });

  it.each([
    [undefined, 30],
    [1, 30],
    [120, 120],
  ])("is held for a capture, with a grace period of %s in the template", (own, seconds) => {
    const made = ofTemplate({ spec: { ...spec, terminationGracePeriodSeconds: own } }, "Migrate");
    expect(made.spec.terminationGracePeriodSeconds).toBe(seconds);
    expect(made.metadata.annotations).toMatchObject({ [annotations.onDisruption]: "Migrate", [evictable]: "true" });
    expect(configOf(made)).toMatchObject({ podGraceSeconds: seconds, graceSeconds: own ?? 30 });
  });

  const mib = 1024 ** 2;
  it.each([
    ["of the memory limit", "872Mi", {}, 112],
    ["of what is restored", "872Mi", { restoredBytes: 2_000 * mib }, 212],
    ["of a limit that the administrator's bound exceeds", "64Gi", {}, 300],
    ["of a limit that a smaller bound exceeds", "64Gi", { longestGraceSeconds: 60 }, 60],
    ["of the limits of memory and files", "872Mi", { files: "1Gi" }, 215],
    ["of a small limit", "1Mi", {}, 30],
    ["of an unknown size", undefined, {}, 30],
    ["with an unknown speed", "872Mi", { storeBytesPerSecond: undefined }, 30],
    ["of the memory limit, with a longer period in the template", "872Mi", { own: 400 }, 400],
  ])("is held for a capture %s at the store's measured speed", (_, memory, { own, files, ...more }: Given, seconds) => {
    const limits = { ...(memory && { memory }), ...(files && { "ephemeral-storage": files }) };
    const limited = { ...spec.containers[0]!, resources: { limits } };
    const template = parsePodTemplate({ spec: { containers: [limited], terminationGracePeriodSeconds: own } });
    const made = cellPod(owner, template, {
      ...options,
      onDisruption: "Migrate",
      storeBytesPerSecond: 10 * mib,
      ...more,
    });
    expect(made.spec.terminationGracePeriodSeconds).toBe(seconds);
    expect(configOf(made)).toMatchObject({ podGraceSeconds: seconds, graceSeconds: own ?? 30 });
  });
  type Given = { own?: number; files?: string } & Partial<Parameters<typeof cellPod>[2]>;

  it("leaves the capture its time", () => {
    for (const seconds of [1, 10, 19.5, 100]) {
      expect(leastHeldSeconds(graceSecondsFor(seconds))).toBeGreaterThanOrEqual(seconds);
    }
  });

  it("is what the template says, and the template says whether the Pod can be evicted", () => {
    const own = { metadata: { annotations: { [annotations.onDisruption]: "End", [evictable]: "false" } } };
    const made = ofTemplate(own, "Migrate");
    expect(made.metadata.annotations).toMatchObject({ [annotations.onDisruption]: "End", [evictable]: "false" });
    expect(configOf(made).podGraceSeconds).toBeUndefined();
    const wrong = { metadata: { annotations: { [annotations.onDisruption]: "migrate" } } };
    expect(() => ofTemplate(wrong)).toThrow(
      'spec.template.metadata.annotations[ramet.dev/on-disruption]: "migrate" is not Migrate, Pause or End',
    );
  });

  it.each([
    [undefined, undefined, "Migrate"],
    [["memory", "filesystem"], undefined, "Migrate"],
    [["filesystem"], undefined, "Pause"],
    [["memory"], { type: "Stop" } as const, "End"],
  ])("follows what a pause keeps: contents %j, strategy %j: %s", (contents, strategy, policy) => {
    expect(defaultDisruptionPolicy(contents, strategy)).toBe(policy);
  });
});

const http = { path: "/health", port: 8000 };
const slow = { periodSeconds: 10, timeoutSeconds: 3, failureThreshold: 4 };

it.each([
  ["as soon as the node can", { httpGet: http }, { periodSeconds: 1, failureThreshold: 30 }],
  ["no more often than a probe takes", { httpGet: http, ...slow }, { periodSeconds: 3, failureThreshold: 14 }],
  ["as often as the template says", { httpGet: http, periodSeconds: 1 }, { periodSeconds: 1 }],
  ["with a command at the template's pace", { exec: { command: ["true"] }, ...slow }, slow],
])(
  "finds out by the startup probe that the sandbox runs %s, for as long as the template says",
  (_, probe, expected) => {
    expect(main(pod({ startupProbe: probe })).startupProbe).toMatchObject(expected);
  },
);

it("refuses a postStart hook that sends a request to the sandbox, and keeps one to another host", () => {
  const hook = (httpGet: object) => ({ lifecycle: { postStart: { httpGet: { port: 80, ...httpGet } } } });
  expect(() => pod(hook({}))).toThrow(
    "spec.template.spec.containers[main].lifecycle.postStart.httpGet: a sandbox accepts",
  );
  expect(main(pod(hook({ host: "example.org" }))).lifecycle).toEqual(hook({ host: "example.org" }).lifecycle);
});

it("gives the cell only these capabilities", () => {
  expect(main(pod({ securityContext: { runAsUser: 1000, privileged: true } })).securityContext).toMatchInlineSnapshot(`
    {
      "appArmorProfile": {
        "type": "Unconfined",
      },
      "capabilities": {
        "add": [
          "NET_ADMIN",
          "SYS_ADMIN",
          "SETUID",
          "SETGID",
          "SETFCAP",
          "DAC_OVERRIDE",
          "CHOWN",
          "FOWNER",
          "FSETID",
          "NET_BIND_SERVICE",
          "NET_RAW",
        ],
        "drop": [
          "ALL",
        ],
      },
      "runAsGroup": 0,
      "runAsNonRoot": false,
      "runAsUser": 0,
      "seccompProfile": {
        "type": "Unconfined",
      },
    }
  `);
});

it("sets the seccomp profile and the user namespace of an installation", () => {
  const template = parsePodTemplate({
    spec: { hostUsers: true, containers: [{ name: "main", image: "python:3.12" }] },
  });
  const made = cellPod(owner, template, { ...options, seccompProfile: "ramet/cell.json", userNamespace: true });
  expect(main(made).securityContext).toMatchObject({
    seccompProfile: { type: "Localhost", localhostProfile: "ramet/cell.json" },
  });
  expect(made.spec).toMatchObject({ hostUsers: false });
  // Without the option, the template decides.
  expect(cellPod(owner, template, options).spec).toMatchObject({ hostUsers: true });
});

it.each([
  ["the template's", { own: "10m" }, "10m"],
  ["the template's before the namespace's", { own: "10m", ofNamespace: "5m", ofRuntime: "1h" }, "10m"],
  ["the namespace's before the runtime's", { ofNamespace: "5m", ofRuntime: "1h" }, "5m"],
  ["the runtime's", { ofRuntime: "1h" }, "1h"],
  ["none of the template", { own: "none", ofNamespace: "5m", ofRuntime: "1h" }, "none"],
  ["none of the namespace, which binds", { own: "10m", ofNamespace: "none", ofRuntime: "1h" }, "none"],
  ["none of the runtime, which binds", { own: "10m", ofNamespace: "5m", ofRuntime: "none" }, "none"],
  ["nobody's", {}, undefined],
])("gives the Pod the interval of automatic checkpoints: %s", (_, given, expected) => {
  const { own, ofNamespace, ofRuntime }: { own?: string; ofNamespace?: string; ofRuntime?: string } = given;
  const template = own === undefined ? {} : { [annotations.checkpointEvery]: own };
  const chosen = chosenDisruption(template, "metadata");
  const { [annotations.checkpointEvery]: every } = intervalAnnotation(
    chosen,
    administratorsInterval(ofRuntime, ofNamespace),
  );
  expect(every).toBe(expected);
});
