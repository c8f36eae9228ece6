// `npm run test:kubelet`: tests an installation and its sandboxes on a node with a real kubelet, containerd and runc. Everything
// runs in separate namespaces (network, processes, mounts) and ends with them.
import { spawnSync } from "node:child_process";
import { chmod, mkdir, mkdtemp, rm, rmdir } from "node:fs/promises";
import { globSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { acquirePinned, acquireTools } from "../../src/local/tools/acquire-tools.ts";
import { acquireRegistry } from "../setup/acquire-registry.ts";
import { setup as buildPackage } from "../setup/built-package.ts";
import { otherEngine } from "../setup/other-engine.ts";
import { pinnedTestTool } from "../setup/pinned-tools.ts";
import { buildImages } from "./images.ts";
import { cniDirectory, missingNeeds } from "./needs.ts";
import { nodeToolNames, pinnedNodeTool } from "./node-tools.ts";
import type { ClusterSetting } from "./node.ts";

const progress = (line: string): void => {
  console.error(line);
};

/** With `--if-possible`, the suite is skipped with a message on a machine that cannot run a kubelet. */
const options = process.argv.slice(2).filter((option) => option !== "--if-possible");
const mustRun = !process.argv.includes("--if-possible");
const missing = await missingNeeds();
if (missing.length > 0) {
  console.error(`Cannot run a kubelet here${mustRun ? "" : "; the suite is skipped"}: missing ${missing.join(", ")}`);
  console.error("On Debian, as root: apt-get install buildah runc containernetworking-plugins iproute2");
  process.exit(mustRun ? 1 : 0);
}
buildPackage();
const dir = await mkdtemp(join(tmpdir(), "ramet-kubelet-"));
// Root of a user namespace must be able to reach the root file systems of its containers.
await chmod(dir, 0o711);
const cgroup = `ramet-test-${process.pid}`;
try {
  const tools = {
    ...(await acquireTools({ names: ["etcd", "kube-apiserver"], progress })),
    ...(await acquirePinned(pinnedTestTool, { names: ["versitygw"], progress })),
    "docker-registry": await acquireRegistry(progress),
    ...(await acquirePinned(pinnedNodeTool, { names: nodeToolNames, progress })),
  };
  const images = await buildImages(dir, { ...tools, ...(await otherEngine()) }, progress);
  const setting: ClusterSetting = { dir, cgroup, tools, images, cni: (await cniDirectory()) ?? "" };
  await Promise.all(cgroupDirectories().map((directory) => mkdir(join(directory, "node-b"), { recursive: true })));
  const inside = ["--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"];
  const vitest = ["node_modules/vitest/vitest.mjs", "run", "--config", "test/kubelet/vitest.config.ts"];
  const { status } = spawnSync("unshare", [...inside, process.execPath, ...vitest, ...options], {
    stdio: "inherit",
    env: { ...process.env, RAMET_TEST_KUBELET: JSON.stringify(setting) },
  });
  process.exitCode = status ?? 1;
} finally {
  if (process.env["RAMET_TEST_KEEP"] === undefined) await rm(dir, { recursive: true, force: true });
  for (const directory of cgroupDirectories()) await removeGroup(directory);
}

/** The directories of this run's control group: with cgroup v1, one in each hierarchy. */
function cgroupDirectories(): string[] {
  const hierarchies = globSync("/sys/fs/cgroup/*/cgroup.procs").map((path) => join(path, ".."));
  const isUnified = globSync("/sys/fs/cgroup/cgroup.controllers").length > 0;
  return (isUnified ? ["/sys/fs/cgroup"] : hierarchies).map((directory) => join(directory, cgroup));
}

/** Removes a control group without processes, and the groups in it first. */
async function removeGroup(directory: string): Promise<void> {
  for (const below of globSync(`${directory}/*/`)) await removeGroup(below);
  await rmdir(directory).catch(() => undefined);
}
