import { apiVersion } from "../../src/api/schema/kind.ts";
import { namedSnapshotKind } from "../../src/api/kinds/named-snapshot.ts";
import type { KubeManifest } from "../../src/kube/object.ts";
import { namespace } from "../bench/local-cluster.ts";
import { workloadCommand, workloadPort } from "../bench/workload.ts";

/** A set of the workload. Its template contains `word`: a different word makes a different revision. */
export function setRequest(name: string, replicas: number, word: string) {
  const template = {
    spec: {
      terminationGracePeriodSeconds: 1,
      containers: [
        {
          name: "main",
          image: "python",
          command: workloadCommand(0),
          ports: [{ containerPort: workloadPort }],
          env: [{ name: "WORD", value: word }],
        },
      ],
    },
  };
  const spec = { replicas, template, updateStrategy: { maxUnavailable: 0 } };
  return { apiVersion, kind: "SandboxSet", metadata: { name, namespace }, spec };
}

export function claimRequest(name: string, set: string, replicas: number): KubeManifest {
  const spec = { templateName: set, replicas, createOnNoStock: false };
  return { apiVersion, kind: "SandboxClaim", metadata: { name, namespace }, spec };
}

/** A template for a sandbox that only sleeps. */
export function templateRequest(name: string): KubeManifest {
  const main = {
    name: "main",
    image: "python",
    command: ["sleep", "infinity"],
    ports: [{ containerPort: workloadPort }],
  };
  const template = { spec: { terminationGracePeriodSeconds: 1, containers: [main] } };
  return { apiVersion, kind: "SandboxTemplate", metadata: { name, namespace }, spec: { template } };
}

/** Each step appends a line to a file, which every clone of the version serves as `/steps`. */
export function snapshotRequest(name: string, template: string): KubeManifest {
  const recipe = [
    { run: "mkdir -p /srv && echo one >> /srv/steps" },
    { run: "sleep 0.5; echo two >> /srv/steps" },
    { start: `python3 -m http.server ${workloadPort} -d /srv` },
    { waitFor: { port: workloadPort } },
  ];
  const spec = { from: { template: { name: template } }, recipe, deletionPolicy: "Delete" };
  return { apiVersion: namedSnapshotKind.apiVersion, kind: "NamedSnapshot", metadata: { name, namespace }, spec };
}

export function cloneRequest(name: string, origin: string): KubeManifest {
  const metadata = { name, namespace, annotations: { "ramet.dev/restore-from": origin } };
  return { apiVersion, kind: "Sandbox", metadata, spec: {} };
}
