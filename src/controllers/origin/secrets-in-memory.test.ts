import { expect, test } from "vitest";
import type { Checkpoint } from "../../api/kinds/checkpoint.ts";
import type { NamedSnapshot } from "../../api/kinds/named-snapshot.ts";
import type { Sandbox } from "../../api/kinds/sandbox.ts";
import { secretsOfCheckpoint, secretsOfSandbox, secretsOfTemplate } from "./secrets-in-memory.ts";

const template = {
  spec: {
    containers: [
      {
        name: "main",
        image: "python",
        env: [
          { name: "PLAIN", value: "x" },
          { name: "KEY", valueFrom: { secretKeyRef: { name: "api-key", key: "key" } } },
          { name: "MAP", valueFrom: { configMapKeyRef: { name: "settings", key: "a" } } },
        ],
        envFrom: [{ secretRef: { name: "all-keys" } }, { configMapRef: { name: "settings" } }],
        volumeMounts: [
          { name: "files", mountPath: "/files" },
          { name: "mixed", mountPath: "/mixed" },
        ],
      },
      {
        name: "sidecar",
        image: "proxy",
        env: [{ name: "A", valueFrom: { secretKeyRef: { name: "sidecar-key", key: "a" } } }],
      },
    ],
    volumes: [
      { name: "files", secret: { secretName: "in-files" } },
      {
        name: "mixed",
        projected: { sources: [{ secret: { name: "in-mixed" } }, { configMap: { name: "settings" } }] },
      },
      { name: "of-sidecar", secret: { secretName: "not-mounted" } },
    ],
  },
};

test("lists the Secrets in variables and mounted files of the main container", () => {
  expect(secretsOfTemplate(template)).toEqual(["all-keys", "api-key", "in-files", "in-mixed"]);
});

test("survives a template whose open fields have other types", () => {
  const odd = {
    spec: {
      containers: [
        {
          name: "main",
          image: "a",
          env: [{ name: "A", valueFrom: { secretKeyRef: 7 } }],
          envFrom: [{ secretRef: [] }],
          volumeMounts: [{ name: "v", mountPath: "/v" }],
        },
      ],
      volumes: [{ name: "v", secret: "x", projected: { sources: "y" } }],
    },
  };
  expect(secretsOfTemplate(odd)).toEqual([]);
  expect(secretsOfTemplate(undefined)).toEqual([]);
});

const metadata = { namespace: "team-a", uid: "u", resourceVersion: "1", creationTimestamp: "2026-01-01T00:00:00Z" };

const origin = {
  metadata: { ...metadata, name: "v1", labels: { "ramet.dev/snapshot": "python-data" } },
  spec: {},
  status: { checkpointId: "v1-id", ramet: { secrets: ["of-builder"] } },
} as unknown as Checkpoint;

const snapshot = {
  metadata: { ...metadata, name: "python-data" },
  status: {
    versions: [
      { version: 1, checkpointId: "v1-id", secrets: ["copied"] },
      { version: 2, checkpointId: "v2-id", secrets: ["copied-later"] },
    ],
  },
} as unknown as NamedSnapshot;

const cache = {
  template: () => undefined,
  templatesOwnedBy: () => [],
  checkpointById: (_: string, id: string) => (id === "v1-id" ? origin : undefined),
  snapshot: (key: string) => (key === "team-a/python-data" ? snapshot : undefined),
};

test("a checkpoint of a version has the Secrets that the recipe copied", () => {
  expect(secretsOfCheckpoint(origin, cache)).toEqual(["copied", "of-builder"]);
});

test("a clone has the Secrets of its template and of its checkpoint", () => {
  const clone = {
    metadata: { ...metadata, name: "clone" },
    spec: { template },
    status: { ramet: { restoredFrom: "v1-id" } },
  } as unknown as Sandbox;
  expect(secretsOfSandbox(clone, cache)).toEqual([
    "all-keys",
    "api-key",
    "copied",
    "in-files",
    "in-mixed",
    "of-builder",
  ]);
});
