import { mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { writeStatus } from "../../local/cluster-status.ts";
import { identifyProcess } from "../../local/process-identity.ts";
import { kubeconfigPath } from "./kubeconfig-path.ts";

describe("which kubeconfig is used", () => {
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

  /** A local cluster whose supervisor is this process: it runs. */
  async function localCluster(phase: "up" | "down"): Promise<string> {
    const kubeconfig = await file("data", "ramet", "default", "kubeconfig");
    const supervisor = identifyProcess(process.pid)!;
    const status = { v: 1 as const, name: "default", phase, supervisor, startedAt: "2030-01-01T00:00:00Z", parts: [] };
    writeStatus(join(kubeconfig, "..", "status.json"), status);
    return kubeconfig;
  }

  it("is the one that was given", async () => {
    expect(await kubeconfigPath({ ...environment, KUBECONFIG: await file("k") }, "/given")).toBe("/given");
  });

  it("is the first of KUBECONFIG that exists, before the usual one", async () => {
    await file(".kube", "config");
    const path = await file("second");
    expect(await kubeconfigPath({ ...environment, KUBECONFIG: `${home}/first:${path}` })).toBe(path);
  });

  it("is the usual one, before the local cluster's", async () => {
    await localCluster("up");
    const path = await file(".kube", "config");
    expect(await kubeconfigPath(environment)).toBe(path);
  });

  it("is the local cluster's while that is up", async () => {
    expect(await kubeconfigPath(environment).catch(String)).toContain("No cluster is known");
    const path = await localCluster("up");
    expect(await kubeconfigPath(environment)).toBe(path);
    await localCluster("down");
    await expect(kubeconfigPath(environment)).rejects.toMatchObject({
      code: "NotFound",
      hint: expect.stringContaining("ramet local up") as string,
    });
  });

  it("is none when KUBECONFIG names what does not exist", async () => {
    await localCluster("up");
    await expect(kubeconfigPath({ ...environment, KUBECONFIG: "/missing" })).rejects.toThrow("/missing");
  });
});
