import { envelope } from "../../src/cell/client/guest-wire.ts";

/** Valid documents, which the inputs of targets resemble. */
export const digest = `sha256:${"0".repeat(64)}`;
export const ref = { namespace: "team-a", checkpointId: "c-1" };
const container = {
  name: "main",
  image: "python:3.13",
  command: ["sleep"],
  args: ["1"],
  resources: { memoryBytes: 1 << 28 },
};

export const manifest = {
  v: 1,
  ...ref,
  contents: ["memory", "filesystem"],
  files: [
    { name: "checkpoint.img", sizeBytes: 10, digest },
    { name: "pages.img", sizeBytes: 20, digest },
  ],
  cutAt: "2026-01-01T00:00:00Z",
  engine: { name: "gvisor", version: "release-20260905.0", platform: "systrap", architecture: "amd64", guest: digest },
  templateDigest: digest,
  container: { ...container, envNames: ["A"] },
  image: { name: "python:3.13", digest },
  consistency: "atomic",
};

export const grant = { driver: "directory", access: "write", ...ref, expiresAt: 4e12, path: "/store/team-a" };
const signed = {
  url: "https://bucket.example/team-a/c-1/manifest.json?X-Signature=a",
  headers: { "if-none-match": "*" },
};
export const objectsGrant = {
  driver: "objects",
  access: "write",
  ...ref,
  expiresAt: 4e12,
  attempt: "1700000000000-0123456789abcdef",
  publication: signed,
  publish: signed,
  files: [signed],
  largestFileBytes: 5e9,
};
export const identity = { sandboxId: "team-a--dev", hostname: "dev", accessToken: "t", environment: { A: "b" } };

export const template = {
  metadata: { annotations: { a: "b" }, labels: { c: "d" } },
  spec: {
    containers: [
      {
        name: "main",
        image: "python:3.13",
        command: ["sh", "-c", "echo $(A)"],
        env: [
          { name: "A", value: "$(B)" },
          { name: "S", valueFrom: { secretKeyRef: { name: "s", key: "k" } } },
        ],
        ports: [{ containerPort: 80, protocol: "TCP" }],
        resources: { limits: { memory: "512Mi", cpu: "500m" } },
        volumeMounts: [{ name: "data", mountPath: "/data" }],
        readinessProbe: { httpGet: { port: 80, path: "/" } },
        securityContext: { runAsUser: 1000, privileged: false, capabilities: { add: ["CHOWN"] } },
      },
    ],
    volumes: [
      { name: "data", emptyDir: { sizeLimit: "1Gi" } },
      { name: "host", hostPath: { path: "/" } },
    ],
    hostNetwork: true,
  },
};

export const checkpoint = {
  apiVersion: "agents.kruise.io/v1alpha1",
  kind: "Checkpoint",
  metadata: { name: "c", namespace: "team-a", uid: "u", resourceVersion: "1", annotations: { a: "b" } },
  spec: { sandboxName: "dev", ttlAfterFinished: "30d", persistentContents: ["memory"] },
  status: {
    phase: "Succeeded",
    checkpointId: "c-1",
    ramet: { manifestDigest: digest, contents: ["memory"], sizeBytes: 1, parts: [] },
  },
};

export const snapshot = {
  apiVersion: "ramet.dev/v1alpha1",
  kind: "NamedSnapshot",
  metadata: { name: "python", namespace: "team-a" },
  spec: {
    from: { template: { name: "python" } },
    recipe: [
      { run: "true" },
      { copy: { path: "/a", content: "b" } },
      { env: { A: "b" } },
      { start: "sleep 9" },
      { waitFor: { port: 80 } },
    ],
    contents: ["memory", "filesystem"],
  },
};

export const apiKey = {
  apiVersion: "ramet.dev/v1alpha1",
  kind: "ApiKey",
  metadata: {
    name: "ci",
    namespace: "team-a",
    uid: "u",
    resourceVersion: "1",
    creationTimestamp: "2026-01-01T00:00:00Z",
  },
  spec: {
    serviceAccountName: "agents",
    digests: [{ digest }, { digest: digest.replace(/.$/, "f"), expiresAt: "2030-01-01T00:00:00Z" }],
    limits: { sandboxes: 1, requestsPerSecond: 5, concurrentRequests: 5, bytesInFlight: "1Mi", snapshotBytes: "1.5Gi" },
  },
};

export const sandbox = {
  metadata: {
    name: "dev",
    namespace: "team-a",
    uid: "u",
    resourceVersion: "1",
    annotations: { "ramet.dev/public-ports": "80,81" },
  },
  status: {
    phase: "Running",
    sandboxIp: "10.0.0.1",
    conditions: [
      { type: "Ready", status: "True", reason: "A", message: "", lastTransitionTime: "2026-01-01T00:00:00Z" },
    ],
  },
};

export const statusBody = {
  kind: "Status",
  code: 409,
  reason: "AlreadyExists",
  message: "it exists",
  details: { retryAfterSeconds: 1 },
};

export const streamEvents = [
  { event: { start: { pid: 7 } } },
  { event: { data: { stdout: "aGk=", stderr: "", pty: "eA==" } } },
  { event: { end: { exitCode: -1, exited: false, status: "signal: killed" } } },
].map((message) => envelope(message).toString("latin1"));
export const endOfStream =
  String.fromCharCode(2) +
  envelope({ metadata: { "ramet-missed-bytes": ["5"] } })
    .toString("latin1")
    .slice(1);
export const errorOfStream =
  String.fromCharCode(2) +
  envelope({ error: { code: "not_found", message: "gone", details: [{ type: "x" }] } })
    .toString("latin1")
    .slice(1);
