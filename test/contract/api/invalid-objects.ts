import { invalidApiKeys } from "./invalid-api-keys.ts";
import { invalidSnapshots } from "./invalid-snapshots.ts";

export interface InvalidObject {
  name: string;
  kind: string;
  metadata?: Record<string, unknown>;
  spec: unknown;
  /** The API server's error message. */
  message: RegExp;
}

const template = { spec: { containers: [] } };

/** Objects with one invalid value each. */
export const invalidObjects: InvalidObject[] = [
  {
    name: "a Checkpoint without a sandbox",
    kind: "Checkpoint",
    spec: {},
    message: /spec\.podName: .*podName or sandboxName is required/,
  },
  {
    name: "a Checkpoint of a sandbox and of imported volumes",
    kind: "Checkpoint",
    spec: { podName: "a", volumeImport: { volumes: [{ volume: "data", driver: "a.b", snapshotHandle: "1" }] } },
    message: /spec\.volumeImport: .*volumeImport excludes podName, sandboxName, keepRunning/,
  },
  {
    name: "a Checkpoint of no imported volumes",
    kind: "Checkpoint",
    spec: { volumeImport: { volumes: [] } },
    message: /spec\.volumeImport\.volumes: .*should have at least 1 items/,
  },
  {
    name: "an import of a volume without a handle",
    kind: "Checkpoint",
    spec: { volumeImport: { volumes: [{ volume: "data", driver: "a.b", snapshotHandle: "" }] } },
    message: /spec\.volumeImport\.volumes\[0\]\.snapshotHandle: .*at least 1 chars/,
  },
  {
    name: "an import of a long handle",
    kind: "Checkpoint",
    spec: { volumeImport: { volumes: [{ volume: "data", driver: "a.b", snapshotHandle: "1".repeat(1025) }] } },
    message: /spec\.volumeImport\.volumes\[0\]\.snapshotHandle: Too long/,
  },
  {
    name: "an import of a driver with a path",
    kind: "Checkpoint",
    spec: { volumeImport: { volumes: [{ volume: "data", driver: "a/b", snapshotHandle: "1" }] } },
    message: /spec\.volumeImport\.volumes\[0\]\.driver: Invalid value/,
  },
  {
    name: "a Checkpoint of two sandboxes",
    kind: "Checkpoint",
    spec: { podName: "a", sandboxName: "b" },
    message: /spec\.sandboxName: .*name different sandboxes/,
  },
  {
    name: "a Checkpoint of a sandbox without a name",
    kind: "Checkpoint",
    spec: { podName: "" },
    message: /spec\.podName: .*at least 1 chars/,
  },
  {
    name: "a Checkpoint of memory alone",
    kind: "Checkpoint",
    spec: { podName: "a", persistentContents: ["memory"] },
    message: /spec\.persistentContents: .*must have filesystem if it has memory/,
  },
  {
    name: "a Checkpoint of a content without a name",
    kind: "Checkpoint",
    spec: { podName: "a", persistentContents: ["filesystem", ""] },
    message: /spec\.persistentContents\[1\]: .*at least 1 chars/,
  },
  {
    name: "a Checkpoint of a content with a long name",
    kind: "Checkpoint",
    spec: { podName: "a", persistentContents: ["a".repeat(64)] },
    message: /spec\.persistentContents\[0\]: Too long: may not be more than 63/,
  },
  ...["30", "30w", "soon", "", "-1h", "1 h"].map((ttlAfterFinished) => ({
    name: `a Checkpoint kept for ${JSON.stringify(ttlAfterFinished)}`,
    kind: "Checkpoint",
    spec: { podName: "a", ttlAfterFinished },
    message: /spec\.ttlAfterFinished: Invalid value/,
  })),
  { name: "a Checkpoint without a spec", kind: "Checkpoint", spec: undefined, message: /spec: Required value/ },
  {
    name: "a Sandbox with too many persistent contents",
    kind: "Sandbox",
    spec: { persistentContents: Array.from({ length: 17 }, (_, index) => `content-${index}`) },
    message: /spec\.persistentContents: Too many: 17: must have at most 16 items/,
  },
  ...(["Sandbox", "SandboxTemplate"] as const).map((kind) => ({
    name: `a ${kind} with volumes that its contents do not select`,
    kind,
    spec: { persistentContents: ["memory", "filesystem"], volumes: ["data"] },
    message: /spec\.volumes: .*add volumes to persistentContents/,
  })),
  {
    name: "a Sandbox with an empty list of volumes",
    kind: "Sandbox",
    spec: { volumes: [] },
    message: /spec\.volumes: .*should have at least 1 items/,
  },
  {
    name: "a Sandbox with an unknown pause strategy",
    kind: "Sandbox",
    spec: { pauseStrategy: { type: "Sleep" } },
    message: /spec\.pauseStrategy\.type: Unsupported value: "Sleep"/,
  },
  {
    name: "a Sandbox with an unknown upgrade policy",
    kind: "Sandbox",
    spec: { upgradePolicy: { type: "Hope" } },
    message: /spec\.upgradePolicy\.type: Unsupported value: "Hope"/,
  },
  {
    name: "a Sandbox of two templates",
    kind: "Sandbox",
    spec: { template, templateRef: { name: "t" } },
    message: /spec\.templateRef: .*exclude each other/,
  },
  {
    name: "a Sandbox with a templateRef without a name",
    kind: "Sandbox",
    spec: { templateRef: {} },
    message: /spec\.templateRef\.name: Required value/,
  },
  {
    name: "a Sandbox with an invalid shutdown time",
    kind: "Sandbox",
    spec: { shutdownTime: "tomorrow" },
    message: /spec\.shutdownTime: Invalid value: .*date-time/,
  },
  {
    name: "a Sandbox whose name is not a DNS label",
    kind: "Sandbox",
    metadata: { name: "a.b" },
    spec: {},
    message: /metadata\.name must be a DNS label/,
  },
  {
    name: "a Sandbox whose name is too long",
    kind: "Sandbox",
    metadata: { name: "a".repeat(64) },
    spec: {},
    message: /metadata\.name must be a DNS label/,
  },
  {
    name: "a SandboxSet of two templates",
    kind: "SandboxSet",
    spec: { replicas: 1, template, templateRef: { name: "t" } },
    message: /spec\.templateRef: .*exclude each other/,
  },
  { name: "a SandboxSet without replicas", kind: "SandboxSet", spec: {}, message: /spec\.replicas: Required value/ },
  {
    name: "a SandboxSet with negative replicas",
    kind: "SandboxSet",
    spec: { replicas: -1 },
    message: /spec\.replicas: .*greater than or equal to 0/,
  },
  {
    name: "a SandboxClaim without a set",
    kind: "SandboxClaim",
    spec: {},
    message: /spec\.templateName: Required value/,
  },
  {
    name: "a SandboxClaim of no sandboxes",
    kind: "SandboxClaim",
    spec: { templateName: "p", replicas: 0 },
    message: /spec\.replicas: .*greater than or equal to 1/,
  },
  ...["claimTimeout", "waitReadyTimeout"].flatMap((field) =>
    ["500ms", "0s", "30d", "long"].map((duration) => ({
      name: `a SandboxClaim whose ${field} is ${duration}`,
      kind: "SandboxClaim",
      spec: { templateName: "p", [field]: duration },
      message: new RegExp(`spec\\.${field}: Invalid value`),
    })),
  ),
  {
    name: "a SandboxClaim with two mounts at one path",
    kind: "SandboxClaim",
    spec: {
      templateName: "p",
      dynamicVolumesMount: [
        { pvName: "a", mountPath: "/a" },
        { pvName: "b", mountPath: "/a" },
      ],
    },
    message: /spec\.dynamicVolumesMount\[1\]: Duplicate value/,
  },
  ...invalidSnapshots,
  ...invalidApiKeys,
];
