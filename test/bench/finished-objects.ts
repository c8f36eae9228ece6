import { cellPod } from "../../src/api/pod/cell-pod.ts";
import type { Checkpoint } from "../../src/api/kinds/checkpoint.ts";
import { templateDigest, templateRevision, restoreSpec } from "../../src/api/pod/restore-spec.ts";
import { apiVersion } from "../../src/api/schema/kind.ts";
import { annotations, finalizers, labels } from "../../src/api/names/labels.ts";
import { PodTemplateSpec } from "../../src/api/schema/pod-template.ts";
import type { SandboxStatus } from "../../src/api/kinds/sandbox.ts";
import { checkpointIdOf } from "../../src/api/state/checkpoint.ts";
import { sandboxResources } from "../../src/controllers/cluster/resources.ts";
import type { KubeClient } from "../../src/kube/kube-client.ts";
import type { KubeObject } from "../../src/kube/object.ts";
import { coreResources } from "../../src/kube/resource-ref.ts";
import { makeNamespace } from "../setup/namespace.ts";

/** The number of objects of each kind. */
export interface ObjectCounts {
  sandboxes: number;
  pods: number;
  checkpoints: number;
  templates: number;
}

/**
 * Writes the objects of idle sandboxes and checkpoints, ten writes for each sandbox. **It stands in for the controller, the
 * node and the cells**: each Sandbox and its Pod (in the controller's shape) report Running and Ready, at an address where
 * nothing listens, and its two Checkpoints report Succeeded and keep a SandboxTemplate each. Nothing runs, and no checkpoint
 * has data in a store. The caller must verify that the controller does not change the objects; they then measure the load
 * of the controller's caches and queues.
 */
export class FinishedObjects {
  readonly #client: KubeClient;
  #sandboxes = 0;

  constructor(client: KubeClient) {
    this.#client = client;
  }

  /** Writes the missing objects. */
  async grow(sandboxes: number, signal: AbortSignal): Promise<ObjectCounts> {
    for (let first = this.#sandboxes; first < sandboxes; first++) {
      if (first % perNamespace === 0) await makeNamespace(this.#client, namespaceOf(first));
    }
    const worker = async (): Promise<void> => {
      while (this.#sandboxes < sandboxes) {
        signal.throwIfAborted();
        const number = this.#sandboxes++;
        await this.#write(number);
        if (number % 100 === 99) process.stderr.write(`\rscale: ${number + 1} of ${sandboxes} sandboxes written `);
      }
    };
    await Promise.all(Array.from({ length: writers }, worker));
    process.stderr.write("\r\x1b[K");
    return { sandboxes, pods: sandboxes, checkpoints: 2 * sandboxes, templates: 2 * sandboxes };
  }

  async #write(number: number): Promise<void> {
    const { sandboxes, checkpoints, templates } = sandboxResources;
    const [namespace, name] = [namespaceOf(number), nameOf(number)];
    const sandbox = await this.#client.resource(sandboxes).create({
      apiVersion,
      kind: "Sandbox",
      metadata: { name, namespace, finalizers: [finalizers.sandbox] },
      spec: { template },
    });
    const pod = await this.#writePod(sandbox, number);
    await this.#writeStatus(sandboxes, sandbox, { ...sandboxStatus(pod, addressOf(number)) });
    for (const which of [1, 2]) {
      const checkpoint = await this.#client.resource(checkpoints).create({
        apiVersion,
        kind: "Checkpoint",
        metadata: {
          name: `${name}-${which}`,
          namespace,
          finalizers: [finalizers.checkpoint],
          labels: { [labels.sandboxName]: name, [labels.checkpointType]: "filesystem-memory" },
          annotations: { [annotations.podUid]: pod.metadata.uid, [annotations.sandboxId]: `${namespace}--${name}` },
        },
        spec: { sandboxName: name },
      });
      await this.#writeStatus(checkpoints, checkpoint, { ...checkpointStatus(checkpoint) });
      const owner = { apiVersion, kind: "Checkpoint", name: checkpoint.metadata.name, uid: checkpoint.metadata.uid };
      await this.#client.resource(templates).create({
        apiVersion,
        kind: "SandboxTemplate",
        metadata: { name: owner.name, namespace, ownerReferences: [{ ...owner, controller: true }] },
        spec: { template },
      });
    }
  }

  async #writePod({ metadata }: KubeObject, number: number): Promise<KubeObject> {
    const { name, uid, namespace = "" } = metadata;
    const owner = { metadata: { name, namespace, uid }, spec: {} };
    const manifest = cellPod(owner, template, { cellImage: "ramet.dev/cell:bench", publicKey, start: "boot" });
    const podIP = addressOf(number);
    const pod = await this.#client
      .resource(coreResources.pods)
      .create({ ...manifest, spec: { ...manifest.spec, nodeName } });
    const conditions = [{ type: "Ready", status: "True", lastTransitionTime: longAgo }];
    await this.#writeStatus(coreResources.pods, pod, { phase: "Running", podIP, podIPs: [{ ip: podIP }], conditions });
    return pod;
  }

  async #writeStatus(
    resource: Parameters<KubeClient["resource"]>[0],
    { metadata }: KubeObject,
    status: object,
  ): Promise<void> {
    await this.#client.resource(resource).mergePatch(metadata, { status }, { subresource: "status" });
  }
}

/** The address of the sandbox of that number. */
export function namespaceOf(number: number): string {
  return `scale-${Math.floor(number / perNamespace)}`;
}

export function nameOf(number: number): string {
  return `sandbox-${number}`;
}

const perNamespace = 1_000;
const writers = 24;
const nodeName = "stand-in";
const longAgo = "2026-01-01T00:00:00Z";
/** The private key is not used. */
const publicKey = Buffer.alloc(32).toString("base64url");
const digest = `sha256:${"0".repeat(64)}`;

const template = PodTemplateSpec.parse({
  spec: {
    containers: [
      { name: "main", image: "python", command: ["python3", "-m", "http.server"], ports: [{ containerPort: 8000 }] },
    ],
  },
});

function addressOf(number: number): string {
  const [block, part] = [Math.floor(number / 62_500), Math.floor(number / 250) % 250];
  return `10.${64 + block}.${part}.${(number % 250) + 1}`;
}

function sandboxStatus({ metadata }: KubeObject, sandboxIp: string): SandboxStatus {
  return {
    observedGeneration: 1,
    phase: "Running",
    conditions: [{ type: "Ready", status: "True", reason: "PodReady", message: "", lastTransitionTime: longAgo }],
    nodeName,
    sandboxIp,
    updateRevision: templateRevision(template),
    podInfo: {
      annotations: metadata.annotations,
      labels: metadata.labels,
      nodeName,
      podIP: sandboxIp,
      podUID: metadata.uid,
    },
    ramet: { generation: 1, bootMilliseconds: 0, phases: { prepare: 0, create: 0, start: 0, guest: 0 } },
  };
}

function checkpointStatus({ metadata }: KubeObject): NonNullable<Checkpoint["status"]> {
  return {
    observedGeneration: 1,
    phase: "Succeeded",
    checkpointId: checkpointIdOf(metadata),
    completionTime: longAgo,
    ramet: {
      // The sweep of the store does not look for data of other backends.
      backend: "stand-in",
      contents: ["memory", "filesystem"],
      manifestDigest: digest,
      sizeBytes: 0,
      cutAt: longAgo,
      readyAt: longAgo,
      pausedMilliseconds: 0,
      templateDigest: templateDigest(template),
      template: restoreSpec(template),
      image: "python",
      imageDigest: digest,
      consistency: "quiesced",
      needs: { architecture: "amd64", engine: "none: nothing was captured", platform: "systrap" },
      phases: { open: 0, quiesce: 0, checkpoint: 0, publish: 0 },
    },
  };
}
