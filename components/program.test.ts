import { output, runtime } from "@pulumi/pulumi";
import { Provider as Kubernetes } from "@pulumi/kubernetes";
import { beforeEach, expect, it, vi } from "vitest";
import {
  ApiKey,
  NamedSnapshot,
  copy,
  Provider,
  RametRuntime,
  run,
  SandboxClone,
  SandboxSet,
  SandboxTemplate,
  type SandboxTemplateArgs,
} from "./index.ts";
import { disruptionAnnotations } from "./disruption.ts";
import { providerTexts } from "../test/program/provider-texts.ts";

/** Programs as users test them: without an engine and without an organization. */
interface Registered {
  type: string;
  name: string;
  inputs: Record<string, unknown>;
}
let registered: Registered[];

const mocks: runtime.Mocks = {
  newResource: ({ type, name, inputs }) => {
    registered.push({ type, name, inputs: inputs as Registered["inputs"] });
    return { id: `${name}-id`, state: inputs as Registered["inputs"] };
  },
  call: ({ inputs }) => inputs as Record<string, unknown>,
};

beforeEach(async () => {
  registered = [];
  await runtime.setMocks(mocks);
});

async function inputsOf(type: string): Promise<Registered["inputs"] | undefined> {
  await runtime.disconnect();
  return registered.find((one) => one.type === type)?.inputs;
}

const later = <T>(value: T) => output(Promise.resolve(value));

const templateType = "kubernetes:agents.kruise.io/v1alpha1:SandboxTemplate";

it("runs with setMocks, as dynamic resources whose text in the state never changes", async () => {
  const python = new SandboxTemplate("python", { image: "python" });
  const data = new NamedSnapshot("data", { from: python, recipe: [run("true")], suspend: true, labels: { a: "b" } });
  new SandboxClone("dev", { from: data });
  new SandboxSet("pool", { from: data, replicas: 1 });
  new ApiKey("agents", { serviceAccountName: "agents" });
  await runtime.disconnect();
  const texts = registered.flatMap(({ inputs }) => inputs["__provider"] ?? []);
  expect(texts.toSorted()).toEqual(Object.values(providerTexts).toSorted());
  const [snapshot] = registered.filter(({ type }) => type === "pulumi-nodejs:dynamic/ramet:NamedSnapshot");
  expect(snapshot?.inputs).toMatchObject({
    owner: "organization/project/stack/data",
    suspend: true,
    labels: { a: "b" },
    from: { template: { name: "python" } },
  });
});

it("declares resources of the provider process where a Provider applies, also for the waits of components", async () => {
  const cluster = new Provider("cluster", { kubeconfig: "text", namespace: "team-a" });
  const providers = [cluster];
  const python = new SandboxTemplate("python", { image: "python", namespace: "team-a" }, { providers });
  const recipe = [run("true"), copy({ path: "/etc/token", secret: "s3cret" })];
  const data = new NamedSnapshot("data", { from: python, namespace: "team-a", recipe }, { provider: cluster });
  new SandboxClone("dev", { from: data, namespace: "team-a", publicPorts: [8000] }, { provider: cluster });
  new SandboxSet("pool", { from: data, replicas: 1, namespace: "team-a" }, { providers });
  new ApiKey("agents", { serviceAccountName: "agents" }, { provider: cluster });
  expect(await inputsOf("pulumi:providers:ramet")).toMatchObject({ namespace: "team-a", organization: "organization" });
  const snapshot = await inputsOf("ramet:index:NamedSnapshot");
  expect(snapshot).toMatchObject({
    from: { template: "python" },
    recipe: [{ run: "true" }, { copy: { path: "/etc/token" } }],
    source: { template: { template: { spec: { containers: [{ image: "python" }] } } } },
  });
  expect(snapshot).not.toHaveProperty("owner");
  expect(await inputsOf("ramet:index:SandboxClone")).toMatchObject({ from: "data", publicPorts: [8000] });
  expect(await inputsOf("ramet:index:ApiKey")).not.toHaveProperty("namespace");
  expect(await inputsOf("ramet:index:Readiness")).toMatchObject({ kind: "SandboxSet", name: "pool" });
  expect(registered.filter(({ type }) => type.startsWith("pulumi-nodejs:"))).toEqual([]);
});

it("declares what is made from an object in its namespace, and in another one only if that is asked for", async () => {
  const python = new SandboxTemplate("python", { image: "python", namespace: "team-a" });
  const cluster = new Provider("cluster", { kubeconfig: "text", namespace: "team-b" });
  new NamedSnapshot("data", { from: python, recipe: [] }, { provider: cluster });
  new SandboxSet("pool", { from: python, replicas: 1 });
  await runtime.disconnect();
  expect(await inputsOf("ramet:index:NamedSnapshot")).toMatchObject({ name: "data", namespace: "team-a" });
  const sets = registered.filter(({ type }) => type.endsWith(":SandboxSet") && type.startsWith("kubernetes:"));
  expect(sets).toMatchObject([{ inputs: { metadata: { namespace: "team-a" } } }]);
});

it("refuses the provider of another package with what to use instead", () => {
  const provider = new Kubernetes("own", { kubeconfig: "text" });
  expect(() => new NamedSnapshot("data", { from: { template: "python" } }, { provider })).toThrow(
    /The provider of a NamedSnapshot is one of another package.*Use a Provider of the package ramet/s,
  );
});

it("leads a domain to the gateways that the program gets from another resource", async () => {
  // A test of a program does not read the cluster of the one who runs it.
  vi.stubEnv("KUBECONFIG", "/nowhere/kubeconfig");
  vi.stubEnv("HOME", "/nowhere");
  const { nodes } = new RametRuntime("ramet", {
    mode: "install",
    image: "registry.example/ramet:1",
    cellImage: "registry.example/ramet-cell:1",
    store: { s3: { bucket: "checkpoints" } },
    clientApi: {},
    gateway: {
      domain: later("example.org"),
      tlsIssuer: later("letsencrypt"),
      service: "LoadBalancer",
      annotations: { a: later("b") },
    },
  });
  await nodes.objects;
  const certificate = await inputsOf("kubernetes:cert-manager.io/v1:Certificate");
  vi.unstubAllEnvs();
  expect(certificate).toMatchObject({
    spec: { dnsNames: ["*.example.org", "example.org"], issuerRef: { name: "letsencrypt" } },
  });
  const service = registered.find(({ name }) => name === "ramet-Service/ramet-gateway")?.inputs;
  expect(service).toMatchObject({
    metadata: { annotations: { a: "b", "external-dns.alpha.kubernetes.io/hostname": "*.example.org,example.org" } },
    spec: { type: "LoadBalancer", ports: [{ port: 443 }] },
  });
  const address = registered.find(({ name }) => name === "ramet-ConfigMap/ramet-gateway-address")?.inputs;
  expect(address).toMatchObject({ data: { url: "https://example.org", domain: "example.org" } });
});

async function templateOf(args: Omit<SandboxTemplateArgs, "image">): Promise<unknown> {
  new SandboxTemplate("python", { image: "python", ...args });
  const { spec } = (await inputsOf(templateType)) as { spec: unknown };
  return spec;
}

it("has only what a program sets", async () => {
  const containers = [{ name: "sandbox", image: "python", command: ["sleep", "infinity"] }];
  expect(await templateOf({})).toEqual({ template: { spec: { containers } } });
});

it("says on a template or a set what becomes of sandboxes whose Pods are lost, and refuses what controllers would", async () => {
  const args = { onDisruption: "Pause", checkpointEvery: later("10m"), checkpointsKept: 3 } as const;
  const annotations = {
    "ramet.dev/on-disruption": "Pause",
    "ramet.dev/checkpoint-every": "10m",
    "ramet.dev/checkpoints-kept": "3",
  };
  expect(await templateOf(args)).toMatchObject({ template: { metadata: { annotations } } });
  new SandboxSet("pool", { from: { template: "python" }, replicas: 1, ...args });
  expect(await inputsOf("kubernetes:agents.kruise.io/v1alpha1:SandboxSet")).toMatchObject({
    metadata: { annotations },
  });
  expect(() => disruptionAnnotations({ checkpointEvery: "5s" })).toThrow(/is not from 1m to 24h/);
});

it("has typed fields for a Pod: volumes, claims, nodes, Secrets, rules, probes and containers before it", async () => {
  const spec = await templateOf({
    env: { A: "1" },
    secretEnv: { TOKEN: { secret: "agent", key: "token" } },
    imagePullSecrets: ["registry"],
    resources: { memory: "512Mi", ephemeralStorage: "5Gi" },
    mounts: {
      "/var/lib/data": { claimTemplate: { size: "10Gi", storageClass: "fast" } },
      "/models": { claim: "models", readOnly: true },
      "/tmp/cache": { name: "cache", emptyDir: { sizeLimit: "1Gi" } },
      "/etc/app": { configMap: "app" },
      "/etc/keys": { secret: "keys" },
    },
    egress: { default: "deny", allow: ["pypi.org:443"] },
    nodeSelector: { pool: "sandboxes" },
    tolerations: [{ key: "sandboxes", operator: "Exists" }],
    affinity: { nodeAffinity: {} },
    securityContext: { runAsUser: 1000 },
    startupProbe: { httpGet: { path: "/", port: 8000 } },
    readinessProbe: { tcpSocket: { port: 8000 } },
    livenessProbe: { exec: { command: ["true"] } },
    initContainers: [{ name: "fetch", image: "busybox" }],
  });
  expect(spec).toEqual({
    template: {
      metadata: { annotations: { "ramet.dev/egress": '{"default":"deny","allow":["pypi.org:443"]}' } },
      spec: {
        containers: [
          {
            name: "sandbox",
            image: "python",
            command: ["sleep", "infinity"],
            env: [
              { name: "A", value: "1" },
              { name: "TOKEN", valueFrom: { secretKeyRef: { name: "agent", key: "token" } } },
            ],
            resources: { limits: { memory: "512Mi", "ephemeral-storage": "5Gi" } },
            volumeMounts: [
              { name: "var-lib-data", mountPath: "/var/lib/data" },
              { name: "models", mountPath: "/models", readOnly: true },
              { name: "cache", mountPath: "/tmp/cache" },
              { name: "etc-app", mountPath: "/etc/app" },
              { name: "etc-keys", mountPath: "/etc/keys" },
            ],
            securityContext: { runAsUser: 1000 },
            startupProbe: { httpGet: { path: "/", port: 8000 } },
            readinessProbe: { tcpSocket: { port: 8000 } },
            livenessProbe: { exec: { command: ["true"] } },
          },
        ],
        initContainers: [{ name: "fetch", image: "busybox" }],
        volumes: [
          { name: "models", persistentVolumeClaim: { claimName: "models" } },
          { name: "cache", emptyDir: { sizeLimit: "1Gi" } },
          { name: "etc-app", configMap: { name: "app" } },
          { name: "etc-keys", secret: { secretName: "keys" } },
        ],
        nodeSelector: { pool: "sandboxes" },
        tolerations: [{ key: "sandboxes", operator: "Exists" }],
        affinity: { nodeAffinity: {} },
        imagePullSecrets: [{ name: "registry" }],
      },
    },
    volumeClaimTemplates: [
      {
        metadata: { name: "var-lib-data" },
        spec: {
          accessModes: ["ReadWriteOnce"],
          storageClassName: "fast",
          resources: { requests: { storage: "10Gi" } },
        },
      },
    ],
  });
});
