import { afterAll, beforeAll, describe, expect, it } from "vitest";
import * as z from "zod";
import { annotations, labels } from "../../src/api/names/labels.ts";
import { defined } from "../../src/base/defined.ts";
import { clusterRights } from "../../src/install/controller-rights.ts";
import { ruleOf } from "../../src/install/rights.ts";
import type { KubeClient } from "../../src/kube/kube-client.ts";
import type { KubeManifest } from "../../src/kube/object.ts";
import { coreResources } from "../../src/kube/resource-ref.ts";
import {
  developer,
  dryRun,
  objectOf,
  openTenantCluster,
  refOfKind,
  refusal,
  type TenantCluster,
  untilRefused,
} from "./tenant-cluster.ts";

/** Pods and namespaces of a user with the usual rights of an editor. */
let cluster: TenantCluster;
let editor: KubeClient;

const editing = {
  apiGroups: [""],
  resources: [
    "pods",
    "pods/exec",
    "pods/attach",
    "pods/portforward",
    "pods/proxy",
    "pods/ephemeralcontainers",
    "pods/resize",
  ],
  verbs: ["get", "create", "update", "patch", "delete"],
};

beforeAll(async () => {
  cluster = await openTenantCluster();
  editor = cluster.as("editor");
  await cluster.installPolicies();
  await openNamespace("team");
  await untilRefused(
    () => createPod("team", "probe", { labels: { [labels.cell]: "true" } }, { dry: true }),
    /Only Ramet's controllers/,
  );
  // The last one that was written: the API server takes policies over once a second, in the order of their writes.
  await untilRefused(() => dryRun(editor, anImport), /get the right to import checkpoints/);
  await editor.resource(refOfKind("Sandbox")).create(sandbox("a"));
  await cluster.sandbox("team/a", ({ status }) => status?.phase === "Running");
});
afterAll(() => cluster.close());

const spec = { containers: [{ name: "main", image: "python", resources: { requests: { cpu: "100m" } } }] };
const sandbox = (name: string) => objectOf("Sandbox", { name, namespace: "team" }, { template: { spec } });
const volumeImport = { volumes: [{ volume: "data", driver: "ebs.csi.aws.com", snapshotHandle: "snap-of-others" }] };
const anImport = objectOf("Checkpoint", { name: "probe", namespace: "team" }, { volumeImport });
const pods = (client: KubeClient) => client.resource(coreResources.pods);

async function openNamespace(namespace: string): Promise<void> {
  await cluster.namespace(namespace);
  await cluster.grant("editor", namespace, [...developer, editing]);
}

function createPod(
  namespace: string,
  name: string,
  metadata: object,
  { client = editor, dry = false }: { client?: KubeClient; dry?: boolean } = {},
): Promise<unknown> {
  const pod = objectOf("Pod", { name, namespace }, spec);
  const whole: KubeManifest = { ...pod, metadata: { ...pod.metadata, ...metadata } };
  return dry ? dryRun(client, whole) : pods(client).create(whole);
}

describe("a Pod in the place of a cell", () => {
  const owner = async () => {
    const { metadata } = await editor.resource(refOfKind("Sandbox")).get({ namespace: "team", name: "a" });
    return { apiVersion: "agents.kruise.io/v1alpha1", kind: "Sandbox", name: "a", uid: metadata.uid, controller: true };
  };

  it("is refused from a user who can create Pods, by its label and by its owner", async () => {
    expect(await refusal(createPod("team", "x", { labels: { [labels.cell]: "true" } }))).toMatch(
      /Only Ramet's controllers/,
    );
    expect(await refusal(createPod("team", "x", { labels: { [labels.cell]: "" } }))).toMatch(
      /Only Ramet's controllers/,
    );
    expect(await refusal(createPod("team", "x", { ownerReferences: [await owner()] }))).toMatch(
      /Only Ramet's controllers/,
    );
  });

  it("is refused from a user with all rights on Ramet's kinds", async () => {
    const all = { apiGroups: ["agents.kruise.io", "ramet.dev"], resources: ["*"], verbs: ["*"] };
    await cluster.grant("owner", "team", [all, editing]);
    const client = cluster.as("owner");
    await expect.poll(() => refusal(createPod("team", "plain", {}, { client, dry: true }))).toBe("");
    const claim = { labels: { [labels.cell]: "true" } };
    expect(await refusal(createPod("team", "x", claim, { client, dry: true }))).toMatch(/Only Ramet's controllers/);
  });

  it("cannot be made of another Pod", async () => {
    await createPod("team", "ordinary", { labels: { mine: "too" } });
    const at = { namespace: "team", name: "ordinary" };
    const change = (metadata: object) => refusal(pods(editor).mergePatch(at, { metadata }));
    expect(await change({ labels: { [labels.cell]: "true" } })).toMatch(/Only Ramet's controllers/);
    expect(await change({ ownerReferences: [await owner()] })).toMatch(/Only Ramet's controllers/);
    expect(await change({ labels: { mine: null } })).toBe("");
  });

  it("can be created with the rights of the controllers, by any name", async () => {
    await cluster.grant("other-controllers", "team", clusterRights.map(ruleOf));
    const client = cluster.as("other-controllers");
    const claim = { labels: { [labels.cell]: "true" }, ownerReferences: [await owner()] };
    expect(await refusal(createPod("team", "cell", claim, { client, dry: true }))).toBe("");
  });
});

describe("a cell's Pod", () => {
  const at = { namespace: "team", name: "a" };

  it("can be changed in what does not make it a cell", async () => {
    await pods(editor).mergePatch(at, { metadata: { labels: { mine: "too" }, annotations: { a: "b" } } });
    expect(await refusal(pods(editor).mergePatch(at, { metadata: { labels: { [labels.cell]: null } } }))).toMatch(
      /cannot be removed/,
    );
  });

  it("keeps its spec, and what Ramet's controllers have noted", async () => {
    const { image } = annotations;
    // The API server reads the node before it lets a Pod be resized.
    const size = { cpu: "4", memory: "4Gi" };
    const status = { capacity: size, allocatable: size };
    const node = { apiVersion: "v1", kind: "Node", metadata: { name: "stand-in" }, status };
    await cluster.client.resource(coreResources.nodes).create(node);
    const bigger = { requests: { cpu: "200m" } };
    const found = z.looseObject({
      spec: z.looseObject({
        containers: z.array(z.looseObject({ resources: z.looseObject({}) })),
        tolerations: z.array(z.unknown()),
      }),
    });
    const { spec: cell } = found.parse(await pods(cluster.client).get(at));
    const changes: [object, string?][] = [
      [{ spec: { containers: cell.containers.map((one) => ({ ...one, image: "mine" })) } }],
      [{ spec: { activeDeadlineSeconds: 1 } }],
      [{ spec: { tolerations: [...cell.tolerations, { key: "mine", operator: "Exists" }] } }],
      [
        {
          spec: { containers: cell.containers.map((one) => ({ ...one, resources: { ...one.resources, ...bigger } })) },
        },
        "resize",
      ],
      [{ metadata: { annotations: { [annotations.egressDigest]: "sha256:00" } } }],
      [{ metadata: { annotations: { [annotations.image]: null } } }],
      [{ metadata: { labels: { "ramet.dev/mine": "too" } } }],
    ];
    await pods(cluster.client).mergePatch(at, { metadata: { annotations: { [image]: "{}" } } });
    for (const [change, subresource] of changes) {
      const patch = pods(editor).mergePatch(at, change, defined({ subresource }));
      expect([change, await refusal(patch)]).toEqual([
        change,
        expect.stringMatching(/only Ramet's controllers change/),
      ]);
    }
    const before = await pods(cluster.client).get(at);
    expect(before.metadata.annotations?.[image]).toBe("{}");
  });

  it("takes no ephemeral containers", async () => {
    const ephemeralContainers = [{ name: "debugger", image: "busybox" }];
    const patch = pods(editor).mergePatch(
      at,
      { spec: { ephemeralContainers } },
      { subresource: "ephemeralcontainers" },
    );
    expect(await refusal(patch)).toMatch(/ephemeral containers are not allowed/);
  });
});

describe("a namespace with sandboxes", () => {
  const denied = /This namespace has sandboxes, so exec, attach, port-forward and proxy are not allowed/;

  it("denies each way into a Pod, without a label that somebody has to set", async () => {
    for (const way of Object.keys(ways)) expect(await enter("team", "a", way)).toMatch(denied);
  });

  it("keeps its label from a user who can change namespaces", async () => {
    await cluster.grant("owner", "team", [{ apiGroups: [""], resources: ["namespaces"], verbs: ["get", "patch"] }]);
    const remove = { metadata: { labels: { [labels.sandboxes]: null } } };
    const namespaces = cluster.as("owner").resource(coreResources.namespaces);
    expect(await refusal(namespaces.mergePatch({ name: "team" }, remove))).toMatch(
      /only an administrator can remove its label/,
    );
    expect(await refusal(namespaces.mergePatch({ name: "team" }, { metadata: { labels: { mine: "too" } } }))).toBe("");
  });

  it("opens by the label of an administrator, and closes again by the older label", async () => {
    const label = (name: string, value: string | null) =>
      cluster.client
        .resource(coreResources.namespaces)
        .mergePatch({ name: "team" }, { metadata: { labels: { [name]: value } } });
    await label(labels.allowExec, "true");
    for (const way of Object.keys(ways)) await expect.poll(() => enter("team", "a", way)).not.toMatch(denied);
    await label(labels.denyExec, "true");
    for (const way of Object.keys(ways))
      await expect.poll(() => enter("team", "a", way)).toMatch(/ramet\.dev\/deny-exec of this namespace forbids/);
    await label(labels.denyExec, null);
    await label(labels.allowExec, null);
    await expect.poll(() => enter("team", "a", "exec")).toMatch(denied);
  });

  it("leaves other namespaces as they are", async () => {
    await openNamespace("other");
    await createPod("other", "b", {});
    for (const way of Object.keys(ways))
      expect(await enter("other", "b", way)).toMatch(/does not have a host assigned|no endpoints|dial|address/);
  });
});

const options = (kind: string) => ({ apiVersion: "v1", kind, metadata: {} });
const ways: Record<string, KubeManifest> = {
  exec: options("PodExecOptions"),
  attach: options("PodAttachOptions"),
  portforward: options("PodPortForwardOptions"),
  proxy: options("PodProxyOptions"),
};

function enter(namespace: string, name: string, way: string): Promise<string> {
  return refusal(pods(editor).postSubresource({ namespace, name }, way, ways[way] ?? options("")));
}
