import { readdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, inject, it } from "vitest";
import { RametError } from "../../src/base/errors.ts";
import { startFaultProxy, type FaultProxy } from "../setup/fault-proxy.ts";
import { cellSeccompProfile } from "./node.ts";
import { imageNames } from "./images.ts";
import { makeStoreSecret, openWorld, type World } from "./world.ts";

const long = { timeout: 90_000, interval: 250 };
/** The size of the files of a checkpoint and of a layer. */
const mebibytes = 304;

/** Tests the node's cache on one node, with a store in S3. A proxy counts what cells download. */
describe("the cache of a node", () => {
  let world: World;
  let directory: string;
  let cache: string;
  let proxy: FaultProxy;
  /** The object and the range of each download. */
  const downloads: string[] = [];

  beforeAll(async () => {
    world = await openWorld();
    directory = join(world.directory, "kustomization");
    cache = join(inject("cluster").dir, "node-cache");
    proxy = await startFaultProxy(world.s3.endpoint, new URL(world.s3.endpoint).hostname);
    proxy.choose = ({ method, path, range }) => {
      if (method === "GET" && range !== undefined) downloads.push(`${new URL(path, proxy.endpoint).pathname} ${range}`);
      return "pass";
    };
    const address = `s3://checkpoints/cache?endpoint=${encodeURIComponent(proxy.endpoint)}&allow-insecure=true`;
    const images = ["--image", imageNames.controller, "--cell-image", imageNames.cell];
    const cells = ["--cell-seccomp-profile", cellSeccompProfile, "--node-cache-path", cache];
    await world.ramet("manifests", ...images, ...cells, "--store", address, "--store-secret", "s3", "--out", directory);
    await world.kubectl("apply", "-f", join(directory, "namespace.yaml"));
    await makeStoreSecret(world);
    await world.kubectl("apply", "-k", directory);
    await world.kubectl("rollout", "status", "-n", "ramet-system", "deployment/ramet-controller", "--timeout=120s");
    // What other suites have left in the namespace would fill its cache too.
    await world.kubectl("delete", "namedsnapshot,sandboxset,sandbox,checkpoint", "--all", "--wait=true");
    for (const namespace of ["default", "other"]) {
      if (namespace === "other") await world.kubectl("create", "namespace", namespace);
      await world.apply(JSON.stringify(template(namespace)));
    }
  });
  afterAll(async () => {
    await world.kubectl("delete", "sandbox,checkpoint,namedsnapshot", "--all", "--wait=true");
    await world.kubectl("delete", "namespace", "other");
    await world.kubectl("delete", "-f", join(directory, "deployment.yaml"));
    await proxy.stop();
  });

  const ramet: World["ramet"] = (...args) => world.ramet(...args);
  const uidOf = (namespace: string) => world.kubectl("get", "namespace", namespace, "-o", "jsonpath={.metadata.uid}");
  const cellsLog = (name: string) => world.kubectl("logs", name, "-c", "sandbox");
  const downloadedTwice = () => downloads.filter((one, index) => downloads.indexOf(one) !== index);
  const entriesOf = async (namespace: string): Promise<string[]> => {
    const own = join(cache, await uidOf(namespace));
    const [boot] = await readdir(own).catch(() => []);
    return boot === undefined ? [] : (await readdir(join(own, boot))).filter((name) => /-\d+$/.test(name));
  };
  /** Other suites may have used the namespace. */
  const addedTo = async (before: readonly string[]): Promise<string[]> =>
    (await entriesOf("default")).filter((name) => !before.includes(name));

  it("downloads a checkpoint once for three clones that start together, and each has its files", async () => {
    const before = await entriesOf("default");
    await ramet("sandbox", "create", "--template", "python", "--name", "source");
    const digest = await world.inSandbox("source", `${write}; ${digestOf("/data")}`);
    expect(digest).toMatch(/^[0-9a-f]{64} /);
    const id = await ramet("checkpoint", "create", "source");
    const names = ["one", "two", "three"];
    await Promise.all(names.map((name) => ramet("sandbox", "create", "--from", id, "--name", name)));
    for (const name of names) {
      expect(await world.inSandbox(name, digestOf("/data"))).toBe(digest);
      expect(await cellsLog(name)).not.toContain("the node's cache cannot be used");
    }
    expect(downloads.length).toBeGreaterThan(mebibytes / 4);
    expect(downloadedTwice()).toEqual([]);
    expect(await addedTo(before)).toEqual([expect.stringMatching(/^image-/)]);
  });

  it("unpacks a layer of a named snapshot once, for its build and its clones", async () => {
    const before = await entriesOf("default");
    await world.apply(JSON.stringify(snapshot));
    const version = () => world.kubectl("get", "namedsnapshot", "files", "-o", "jsonpath={.status.version}");
    await expect.poll(version, long).toBe("1");
    const names = ["first", "second"];
    await Promise.all(names.map((name) => ramet("sandbox", "create", "--from", "files", "--name", name)));
    const [digest, ...others] = await Promise.all(names.map((name) => world.inSandbox(name, digestOf("/data"))));
    expect(others).toEqual([digest]);
    for (const name of names) expect(await cellsLog(name)).not.toContain("the node's cache cannot be used");
    expect(downloadedTwice()).toEqual([]);
    expect((await addedTo(before)).filter((name) => name.startsWith("layer-"))).toHaveLength(1);
  });

  it("shows a cell what its own namespace has, and not what another has", async () => {
    const user = ["--namespace", "other"];
    await ramet("sandbox", "create", ...user, "--template", "python", "--name", "stranger");
    const volumes = await world.kubectl("get", "pod", ...user, "stranger", "-o", "jsonpath={.spec.volumes}");
    const paths = (JSON.parse(volumes) as { hostPath?: { path: string } }[]).flatMap(({ hostPath }) => hostPath ?? []);
    expect(paths).toEqual([{ path: join(cache, await uidOf("other")), type: "DirectoryOrCreate" }]);
    expect(await readdir(join(cache, await uidOf("other")))).toEqual([]);
    expect((await readdir(cache)).sort()).toEqual((await Promise.all(["default", "other"].map(uidOf))).sort());
  });

  it("is removed from the node when its namespace is deleted, and that of another namespace is not", async () => {
    await world.kubectl("create", "namespace", "short");
    const uids = await Promise.all(["default", "short"].map(uidOf));
    await world.apply(JSON.stringify(template("short")));
    await ramet("sandbox", "create", "--namespace", "short", "--template", "python", "--name", "ends");
    expect(await readdir(cache)).toEqual(expect.arrayContaining(uids));
    await world.kubectl("delete", "sandbox", "--namespace", "short", "ends", "--wait=true");
    await world.kubectl("delete", "namespace", "short");
    // It sweeps when it starts.
    const sweeper = ["-n", "ramet-system", "daemonset/ramet-node-cache"];
    await world.kubectl("rollout", "restart", ...sweeper);
    await expect.poll(() => readdir(cache), long).not.toContain(uids[1]);
    expect(await readdir(cache)).toContain(uids[0]);
    expect(await entriesOf("default")).not.toEqual([]);
  });

  it("is the only directory of the node that the controllers can give to a Pod, and users can mount none", async () => {
    const uid = await uidOf("default");
    const as = ["--as", "system:serviceaccount:ramet-system:ramet-controller", "--dry-run=server"];
    const answer = async (path: string): Promise<string> => {
      const file = join(world.directory, "pod.json");
      await writeFile(file, JSON.stringify(podWith(path)));
      return world.kubectl("create", ...as, "-f", file).catch((error: unknown) => RametError.from(error).message);
    };
    expect(await answer(join(cache, uid))).toContain("created (server dry run)");
    for (const path of ["/", cache, join(cache, await uidOf("other")), `/etc/${uid}`])
      expect(await answer(path)).toContain("only Pods without hostPath volumes");
    const mounting = template("default", "mounting", { volumes: [cacheVolume(join(cache, uid))] });
    await expect(world.apply(JSON.stringify(mounting))).rejects.toThrow("cannot use hostPath");
  });
});

const write = `python3 -c '
import os
os.makedirs("/data")
for n in range(16): open(f"/data/{n}", "wb").write(os.urandom(${mebibytes / 16} << 20))'`;
const digestOf = (path: string) => `cat ${path}/* | sha256sum`;

const resources = { requests: { cpu: "50m", memory: "64Mi" }, limits: { cpu: "1", memory: "512Mi" } };
const sandbox = { name: "sandbox", image: imageNames.python, resources, command: ["sleep", "infinity"] };

function template(namespace: string, name = "python", more: object = {}): object {
  return {
    apiVersion: "agents.kruise.io/v1alpha1",
    kind: "SandboxTemplate",
    metadata: { name, namespace },
    spec: { template: { spec: { terminationGracePeriodSeconds: 1, containers: [sandbox], ...more } } },
  };
}

const snapshot = {
  apiVersion: "ramet.dev/v1alpha1",
  kind: "NamedSnapshot",
  metadata: { name: "files", namespace: "default" },
  spec: {
    from: { template: { name: "python" } },
    recipe: [{ run: write }, { start: "python3 -m http.server 8001" }, { waitFor: { port: 8001 } }],
    layers: true,
  },
};

const cacheVolume = (path: string) => ({ name: "ramet-node-cache", hostPath: { path, type: "DirectoryOrCreate" } });

const podWith = (path: string) => ({
  apiVersion: "v1",
  kind: "Pod",
  metadata: { name: "made", namespace: "default", labels: { "ramet.dev/cell": "true" } },
  spec: {
    automountServiceAccountToken: false,
    containers: [{ name: "main", image: imageNames.python }],
    volumes: [cacheVolume(path)],
  },
});
