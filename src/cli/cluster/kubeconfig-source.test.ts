import { mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { stringify } from "yaml";
import { memoryIo } from "../../../test/setup/memory-io.ts";
import { writeStatus } from "../../local/cluster-status.ts";
import { identifyProcess } from "../../base/process-identity.ts";
import { withCluster } from "./cluster.ts";
import { kubeconfigSource } from "./kubeconfig-source.ts";

describe("kubeconfigSource", () => {
  let home = "";
  let environment: Record<string, string> = {};
  beforeEach(async () => {
    home = await mkdtemp(join(tmpdir(), "ramet-cli-"));
    environment = { HOME: home, XDG_DATA_HOME: join(home, "data") };
  });
  afterEach(() => rm(home, { recursive: true }));

  async function file(...parts: string[]): Promise<string> {
    const path = join(home, ...parts);
    await mkdir(join(path, ".."), { recursive: true });
    await writeFile(path, "");
    return path;
  }

  /** A local cluster that counts as running because its supervisor is this process. */
  async function localCluster(phase: "up" | "down"): Promise<string> {
    const kubeconfig = await file("data", "ramet", "default", "kubeconfig");
    const supervisor = identifyProcess(process.pid)!;
    const status = { v: 1 as const, name: "default", phase, supervisor, startedAt: "2030-01-01T00:00:00Z", parts: [] };
    writeStatus(join(kubeconfig, "..", "status.json"), status);
    return kubeconfig;
  }

  const pathOf = async (given?: string) => (await kubeconfigSource(environment, given)).path;

  it("prefers the given file", async () => {
    environment["KUBECONFIG"] = await file("k");
    expect(await pathOf("/given")).toBe("/given");
  });

  it("returns the existing files of KUBECONFIG in their order, without ~/.kube/config", async () => {
    await file(".kube", "config");
    const second = await file("second");
    const fourth = await file("fourth");
    environment["KUBECONFIG"] = `${home}/first::${second}:${home}/third:${fourth}`;
    expect(await pathOf()).toEqual([second, fourth]);
  });

  it("prefers ~/.kube/config to the local cluster's file", async () => {
    await localCluster("up");
    const path = await file(".kube", "config");
    expect(await pathOf()).toEqual([path]);
  });

  it("returns the local cluster's file while that cluster is up", async () => {
    expect(await pathOf().catch(String)).toContain("Cannot find a cluster");
    const path = await localCluster("up");
    expect(await pathOf()).toBe(path);
    await localCluster("down");
    await expect(pathOf()).rejects.toMatchObject({
      code: "NotFound",
      hint: expect.stringContaining("ramet local up") as string,
    });
  });

  it("fails when no file of KUBECONFIG exists", async () => {
    await localCluster("up");
    environment["KUBECONFIG"] = "/missing:/missing-too";
    await expect(pathOf()).rejects.toMatchObject({
      code: "NotFound",
      message: "Cannot read the kubeconfig: KUBECONFIG names no existing file: /missing, /missing-too",
    });
  });
});

describe("withCluster", () => {
  it("merges the files of KUBECONFIG as kubectl does", async () => {
    const directory = await mkdtemp(join(tmpdir(), "ramet-cli-"));
    const paths = ["first", "missing", "second"].map((name) => join(directory, name));
    const cluster = (server: string) => [{ name: "c", cluster: { server } }];
    const contexts = [
      { name: "one", context: { cluster: "c", namespace: "team-a" } },
      { name: "two", context: { cluster: "c", namespace: "team-b" } },
    ];
    await writeFile(paths[0]!, stringify({ clusters: cluster("https://first.example"), "current-context": "two" }));
    await writeFile(
      paths[2]!,
      stringify({ clusters: cluster("https://second.example"), contexts, "current-context": "one" }),
    );
    const io = memoryIo({ environment: { HOME: directory, KUBECONFIG: paths.join(":") } });
    expect(await withCluster(io, {}, ({ namespace }) => Promise.resolve(namespace))).toBe("team-b");
    expect(await withCluster(io, { context: "one" }, ({ namespace }) => Promise.resolve(namespace))).toBe("team-a");
    await rm(directory, { recursive: true });
  });
});
