const at = "2030-01-01T00:00:00Z";
const condition = { type: "Ready", status: "True", reason: "PodReady", message: "", lastTransitionTime: at };
const digest = `sha256:${"0".repeat(64)}`;

/** A status with every field that the reference and Ramet have. */
export const fullStatuses = [
  {
    kind: "Sandbox",
    spec: {},
    status: {
      observedGeneration: 1,
      phase: "Running",
      message: "m",
      conditions: [condition],
      podInfo: { annotations: { a: "b" }, labels: { c: "d" }, nodeName: "n", podIP: "10.0.0.1", podUID: "u" },
      nodeName: "n",
      sandboxIp: "10.0.0.1",
      updateRevision: "r",
      recycledCount: 1,
      ramet: { generation: 2, bootMilliseconds: 81.5, restoredFrom: "cp-1", phases: { api: 1.25, restore: 60 } },
    },
  },
  {
    kind: "SandboxSet",
    spec: { replicas: 1 },
    status: {
      observedGeneration: 1,
      replicas: 1,
      availableReplicas: 1,
      updateRevision: "r",
      currentRevision: "c",
      updatedReplicas: 1,
      updatedAvailableReplicas: 1,
      conditions: [condition],
      selector: "a=b",
    },
  },
  {
    kind: "SandboxClaim",
    spec: { templateName: "p" },
    status: {
      observedGeneration: 1,
      phase: "Completed",
      message: "m",
      claimedReplicas: 1,
      claimStartTime: at,
      completionTime: at,
      conditions: [condition],
    },
  },
  {
    kind: "Checkpoint",
    spec: { podName: "a" },
    status: {
      observedGeneration: 1,
      phase: "Succeeded",
      message: "m",
      checkpointId: "cp-1",
      completionTime: at,
      conditions: [condition],
      podTemplateDelta: { spec: { any: ["thing"] } },
      ramet: {
        backend: "cell",
        contents: ["memory", "filesystem"],
        manifestDigest: digest,
        sizeBytes: 5_000_000_000,
        cutAt: "2030-01-01T00:00:00.123Z",
        readyAt: at,
        pausedMilliseconds: 43.7,
        templateDigest: digest,
        template: {
          image: "python:3.12",
          command: ["python3"],
          args: [],
          workingDir: "/srv",
          user: { uid: 0, gid: 0 },
          readOnlyRoot: false,
          mounts: [{ target: "/data", readOnly: true }],
        },
        image: "python:3.12",
        imageDigest: digest,
        consistency: "quiesced",
        needs: { architecture: "amd64", engine: "release-20260905", platform: "systrap", cpuFeatures: ["avx2"] },
        phases: { cut: 40, publish: 12.5 },
      },
    },
  },
];
