import { spawn } from "node:child_process";
import { join } from "node:path";
import { mkdir, writeFile } from "node:fs/promises";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { NamedSnapshot } from "../../src/api/kinds/named-snapshot.ts";
import { Sandbox } from "../../src/api/kinds/sandbox.ts";
import { findCondition } from "../../src/kube/conditions.ts";
import { countAt, counterPort, counterScript } from "../setup/counter.ts";
import { cellSeccompProfile } from "./node.ts";
import { imageNames } from "./images.ts";
import { makeStoreSecret, openWorld, type World } from "./world.ts";

const long = { timeout: 90_000, interval: 500 };
const namespace = "upgrade";
const [before, after] = [imageNames.otherCell, imageNames.cell];

/**
 * Tests an upgrade of an installation from a cell image with another gVisor and another guest. The controllers see one namespace,
 * so that nothing of other tests needs an engine.
 */
describe("an upgrade to a cell image with another engine", () => {
  let world: World;
  let directory: string;
  let engine: string;
  let checkpoint: string;
  /** The sandboxes that are claimed during the upgrade. */
  const claimed: string[] = [];

  beforeAll(async () => {
    world = await openWorld(namespace);
    directory = join(world.directory, "kustomization");
    await world.kubectl("create", "namespace", namespace);
    // Other tests have used the same cell image.
    await world.kubectl("delete", "configmap", "ramet-engines", "-n", "ramet-system", "--ignore-not-found");
    await install(before);
  });
  afterAll(async () => {
    await world.kubectl("delete", "sandboxset,namedsnapshot,sandbox", "--all", "--wait=true");
    await world.kubectl("delete", "deployment", "-n", "ramet-system", "ramet-controller");
  });

  /** Installs as `ramet manifests` advises: with a kustomization that refers to its output and has the patches. */
  async function install(cellImage: string): Promise<void> {
    const installation = join(directory, "ramet");
    await mkdir(directory, { recursive: true });
    const address = `s3://checkpoints/upgrade?endpoint=${encodeURIComponent(world.s3.endpoint)}&allow-insecure=true`;
    const images = ["--image", imageNames.controller, "--cell-image", cellImage, "--no-image-lookup"];
    const cells = ["--cell-seccomp-profile", cellSeccompProfile];
    const selector = ["--namespace-selector", `kubernetes.io/metadata.name=${namespace}`];
    const replicas = ["--replicas", "1", "--gateway-replicas", "0"];
    const store = ["--store", address, "--store-secret", "s3"];
    await world.ramet("manifests", ...images, ...cells, ...selector, ...replicas, ...store, "--out", installation);
    const add = { op: "add", path: "/spec/template/spec/containers/0/args/-", value: "--engine-check-interval=1s" };
    const patches = [{ target: { kind: "Deployment", name: "ramet-controller" }, patch: JSON.stringify([add]) }];
    await writeFile(join(directory, "kustomization.yaml"), JSON.stringify({ resources: ["ramet"], patches }));
    await world.kubectl("apply", "-f", join(installation, "namespace.yaml"));
    await makeStoreSecret(world);
    await world.kubectl("apply", "-k", directory);
  }

  const untilRolledOut = () =>
    world.kubectl("rollout", "status", "-n", "ramet-system", "deployment/ramet-controller", "--timeout=120s");
  const read = async (kind: string, name: string): Promise<unknown> =>
    JSON.parse(await world.kubectl("get", kind, name, "-o", "json"));
  const sandbox = async (name: string) => Sandbox.parse(await read("sandbox", name)).status ?? {};
  const snapshot = async () => NamedSnapshot.parse(await read("namedsnapshot", "data")).status ?? {};
  /** Reads the available replicas of pool and warm. */
  const available = () => world.kubectl("get", "sandboxset", "-o", "jsonpath={.items[*].status.availableReplicas}");
  const imageOf = (pod: string) => world.kubectl("get", "pod", pod, "-o", "jsonpath={.spec.containers[0].image}");
  const count = async (name: string) => countAt((await sandbox(name)).sandboxIp ?? "");
  /** Reads the engines of the sandboxes in pool and warm. */
  const engines = () => {
    const unclaimed = "agents.kruise.io/sandbox-pool,agents.kruise.io/sandbox-claimed!=true";
    return world.kubectl("get", "sandbox", "-l", unclaimed, "-o", "jsonpath={.items[*].status.ramet.engine}");
  };
  /** The images that the cluster remembers, without their engines. */
  async function remembered(): Promise<string[]> {
    const from = ["configmap", "ramet-engines", "-n", "ramet-system"];
    const data = await world.kubectl("get", ...from, "-o", "jsonpath={.data}");
    const entries = JSON.parse(data) as Record<string, string>;
    return Object.values(entries).map((entry) => (JSON.parse(entry) as { name: string }).name);
  }

  it("begins with a checkpoint, a paused sandbox, a named snapshot and sets of the earlier engine", async () => {
    await untilRolledOut();
    await world.apply(objects.map((object) => JSON.stringify(object)).join("\n---\n"));
    await world.ramet("sandbox", "create", "--template", "counter", "--name", "kept");
    expect([await count("kept"), await count("kept")]).toEqual([1, 2]);
    checkpoint = await world.ramet("checkpoint", "create", "kept");
    await world.ramet("sandbox", "pause", "kept");
    engine = (await sandbox("kept")).ramet?.engine ?? "";
    await expect.poll(available, long).toBe("2 1");
    expect((await snapshot()).versions).toMatchObject([{ version: 1, engine }]);
    expect(await remembered()).toEqual([before]);
    expect(await world.ramet("upgrade", "--plan", "--cell-image", after)).toMatch(
      new RegExp(`Sandbox +${namespace} +kept +${engine} +is paused, and resumes in ${before}`),
    );
  });

  it("captures the named snapshot again, rolls sets without unavailable sandboxes, and fails no claim", async () => {
    const watch = watchAvailable(world, "pool");
    await install(after);
    const rollout = { isDone: false };
    const rolledOut = untilRolledOut().finally(() => (rollout.isDone = true));
    while (!rollout.isDone) claimed.push(await world.ramet("claim", "warm"));
    await rolledOut;
    expect(await imageOf(claimed[0] ?? "")).toBe(before);
    await expect
      .poll(async () => findCondition((await snapshot()).conditions, "EngineCurrent")?.status, long)
      .toBe("True");
    const { version, versions = [] } = await snapshot();
    expect(version).toBe(2);
    expect(versions.map((one) => one.engine === engine)).toEqual([true, false]);
    expect(versions[1]).toMatchObject({ digest: versions[0]?.digest, replaces: [1] });
    const current = versions[1]?.engine ?? "";
    await expect.poll(engines, long).toBe([current, current, current].join(" "));
    await expect.poll(available, long).toBe("2 1");
    expect(Math.min(...watch.end())).toBe(2);
    const last = await Promise.all(["pool", "warm"].map((set) => world.ramet("claim", set)));
    expect(await Promise.all(last.map(imageOf))).toEqual([after, after]);
  });

  it("clones the named snapshot with the new engine", async () => {
    await world.ramet("sandbox", "create", "--from", "data", "--name", "fresh");
    expect(await imageOf("fresh")).toBe(after);
    expect((await sandbox("fresh")).ramet?.engine).not.toBe(engine);
    expect(await world.inSandbox("fresh", "cat /one")).toBe("one");
  });

  it("clones a memory checkpoint and resumes a paused sandbox in Pods with the earlier cell image", async () => {
    const names = ["clone", "kept"];
    await Promise.all([
      world.ramet("sandbox", "create", "--from", checkpoint, "--name", "clone"),
      world.ramet("sandbox", "resume", "kept"),
    ]);
    expect(await Promise.all(names.map(imageOf))).toEqual([before, before]);
    expect((await Promise.all(names.map(sandbox))).map(({ ramet }) => ramet?.engine)).toEqual([engine, engine]);
    expect(await Promise.all(names.map(count))).toEqual([3, 3]);
  });

  it("forgets the earlier cell image when nothing needs it any more, and not before", async () => {
    expect((await remembered()).sort()).toEqual([before, after].sort());
    const [first] = (await snapshot()).versions ?? [];
    await world.ramet("sandbox", "rm", "clone", "kept", ...claimed);
    // The first version of the named snapshot would be kept for an hour.
    await world.ramet("checkpoint", "rm", checkpoint, first?.checkpointName ?? "");
    await expect.poll(remembered, long).toEqual([after]);
    expect(await world.ramet("upgrade", "--plan", "--cell-image", after)).toBe(
      "Nothing in the cluster depends on another engine.",
    );
  });
});

/** Records the number of available sandboxes of a set at each change. */
function watchAvailable({ kubeconfig, kubectlPath }: World, set: string): { end: () => number[] } {
  const path = '{.status.availableReplicas}{"\\n"}';
  const args = ["--kubeconfig", kubeconfig, "get", "sandboxset", set, "--watch", "-o", `jsonpath=${path}`];
  const child = spawn(kubectlPath, args, { stdio: ["ignore", "pipe", "inherit"] });
  let printed = "";
  child.stdout.setEncoding("utf8").on("data", (text: string) => (printed += text));
  return {
    end: () => {
      child.kill();
      return printed.trim().split("\n").map(Number);
    },
  };
}

const group = "agents.kruise.io/v1alpha1";
const counter = {
  spec: {
    terminationGracePeriodSeconds: 1,
    containers: [
      {
        name: "main",
        image: imageNames.python,
        command: ["python3", "-c", counterScript],
        ports: [{ containerPort: counterPort }],
        resources: { requests: { cpu: "50m", memory: "64Mi" }, limits: { cpu: "1", memory: "256Mi" } },
      },
    ],
  },
};
const objects = [
  { apiVersion: group, kind: "SandboxTemplate", metadata: { name: "counter" }, spec: { template: counter } },
  {
    apiVersion: "ramet.dev/v1alpha1",
    kind: "NamedSnapshot",
    metadata: { name: "data" },
    spec: { from: { template: { name: "counter" } }, recipe: [{ run: "echo one >> /one" }] },
  },
  {
    apiVersion: group,
    kind: "SandboxSet",
    metadata: { name: "pool" },
    spec: { replicas: 2, templateRef: { name: "counter" } },
  },
  {
    apiVersion: group,
    kind: "SandboxSet",
    metadata: { name: "warm" },
    spec: {
      replicas: 1,
      template: { ...counter, metadata: { annotations: { "ramet.dev/restore-from": "data" } } },
    },
  },
];
