import { expect, it } from "vitest";
import { containerSpec } from "./container-spec.ts";
import { parsePodTemplate } from "../schema/pod-template.ts";

const resolve = (container: Record<string, unknown>, pod: Record<string, unknown> = {}) =>
  containerSpec(parsePodTemplate({ spec: { ...pod, containers: [{ name: "main", image: "img", ...container }] } }));

it("keeps the meaning of a container's fields", () => {
  const { spec, unresolvedEnvironment } = resolve(
    {
      command: ["$(SHELL)", "-c"],
      args: ["echo $(GREETING) $(SECRET) $$(NO)"],
      workingDir: "/srv",
      env: [
        { name: "SHELL", value: "/bin/sh" },
        { name: "NAME", value: "you" },
        { name: "GREETING", value: "hello $(NAME) $(LATER)" },
        { name: "LATER", value: "x" },
        { name: "EMPTY" },
        { name: "SECRET", valueFrom: { secretKeyRef: { name: "s", key: "k" } } },
      ],
      ports: [{ containerPort: 8000 }, { containerPort: 53, protocol: "UDP" }],
      startupProbe: { httpGet: { path: "/", port: 49999 } },
      volumeMounts: [
        { name: "b", mountPath: "/b", readOnly: true },
        { name: "a", mountPath: "/a" },
      ],
      resources: { limits: { memory: "512Mi", cpu: 1 } },
      securityContext: { runAsGroup: 5, readOnlyRootFilesystem: true },
    },
    { securityContext: { runAsUser: 1000, runAsGroup: 1000 } },
  );
  expect(spec).toEqual({
    name: "main",
    image: "img",
    command: ["/bin/sh", "-c"],
    args: ["echo hello you $(LATER) $(SECRET) $(NO)"],
    workingDir: "/srv",
    env: [
      { name: "SHELL", value: "/bin/sh" },
      { name: "NAME", value: "you" },
      { name: "GREETING", value: "hello you $(LATER)" },
      { name: "LATER", value: "x" },
      { name: "EMPTY", value: "" },
    ],
    user: { uid: 1000, gid: 5 },
    ports: [8000, 49999],
    readOnlyRoot: true,
    mounts: [
      { source: "/ramet/mounts/0", target: "/a", readOnly: false },
      { source: "/ramet/mounts/1", target: "/b", readOnly: true },
    ],
    resources: { memoryBytes: 536870912, cpuMillis: 1000 },
  });
  expect(unresolvedEnvironment).toEqual(["SECRET"]);
});

it("treats an emptyDir as the sandbox's own if it is writable and no other container mounts it", () => {
  const mount = (name: string, more: object = {}) => ({ name, mountPath: `/${name}`, ...more });
  const { spec } = resolve(
    {
      volumeMounts: [
        mount("bounded"),
        mount("config"),
        mount("filled"),
        mount("own", { subPath: "x" }),
        mount("parts", { subPath: "a" }),
        mount("parts", { mountPath: "/parts-b", subPath: "b" }),
        mount("still", { readOnly: true }),
      ],
    },
    {
      volumes: [
        { name: "bounded", emptyDir: { medium: "Memory", sizeLimit: "1Mi" } },
        { name: "config", configMap: { name: "c" } },
        ...["filled", "own", "parts", "still"].map((name) => ({ name, emptyDir: {} })),
      ],
      initContainers: [{ name: "fill", volumeMounts: [mount("filled")] }],
    },
  );
  const own = spec.mounts.filter(({ emptyDir }) => emptyDir !== undefined);
  expect(own.map(({ target, emptyDir }) => [target, emptyDir])).toEqual([
    ["/bounded", { sizeLimitBytes: 1024 * 1024 }],
    ["/own", {}],
  ]);
});

it("names a sizeLimit that is not a quantity", () => {
  const pod = { volumes: [{ name: "v", emptyDir: { sizeLimit: "much" } }] };
  expect(() => resolve({ volumeMounts: [{ name: "v", mountPath: "/v" }] }, pod)).toThrow(
    /volumes\[v\]\.emptyDir\.sizeLimit.*much/,
  );
});

it.each([
  [{ ports: [{ containerPort: 49980 }] }, /containers\[main\]\.ports: port 49980 is reserved for Ramet/],
  [{ volumeDevices: [{ name: "d", devicePath: "/dev/x" }] }, /containers\[main\]\.volumeDevices/],
  [
    { resources: { limits: { memory: "lots" } } },
    /containers\[main\]\.resources\.limits\.memory is not a Kubernetes quantity/,
  ],
])("rejects %j and names the field", (container, message) => {
  expect(() => resolve(container)).toThrow(message);
});

it.each([
  [undefined, /^spec\.template: /],
  [{ spec: { containers: [] } }, /^spec\.template\.spec\.containers: must have a container for the sandbox first/],
  [{ spec: { containers: [{ name: "a" }] } }, /^spec\.template\.spec\.containers\[0\]\.image: /],
  [{ spec: { containers: [{ name: "a", image: "b", args: "x" }] } }, /^spec\.template\.spec\.containers\[0\]\.args: /],
])("rejects an invalid template and names the field: %j", (template, message) => {
  expect(() => parsePodTemplate(template)).toThrow(message);
});

it("treats null as absent, as Go programs do, and keeps unknown fields", () => {
  const template = parsePodTemplate({
    metadata: { creationTimestamp: null },
    spec: { containers: [{ name: "a", image: "b", resources: null, novel: 1 }], novel: { deep: true } },
  });
  expect(template).toEqual({
    metadata: {},
    spec: { containers: [{ name: "a", image: "b", novel: 1 }], novel: { deep: true } },
  });
});
