import { copyFile, mkdir, readFile, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { stringify } from "yaml";
import { systemClock as clock } from "../../src/base/clock.ts";
import { startChild, type Child, waitUntilReady } from "../../src/local/control-plane/child.ts";
import { runProgram } from "../../src/local/tools/run-program.ts";
import { mountXfs } from "../setup/xfs-disk.ts";
import type { NodeToolName } from "./node-tools.ts";

/** The files and names that main.ts prepares before it enters the namespaces. */
export interface ClusterSetting {
  dir: string;
  /** The control group of this run, which contains those of the kubelet. */
  cgroup: string;
  /** The directory with the CNI plugins. */
  cni: string;
  tools: Record<NodeToolName | "etcd" | "kube-apiserver" | "versitygw" | "docker-registry", string>;
  /** An OCI archive. */
  images: string;
}

/** The path of the cells' seccomp profile in the kubelet's directory of profiles. */
export const cellSeccompProfile = "ramet/cell.json";

/** The machine's address on the Pods' bridge. */
export const controlPlaneAddress = "10.88.0.1";
/** The first one may be read by anyone, the second one by the account of test/setup/registry.ts. */
export const registries = { open: `${controlPlaneAddress}:5000`, protected: `${controlPlaneAddress}:5001` } as const;

/** One node: its programs, and the network of its Pods. */
export interface NodeOptions {
  name: string;
  /** Its files. */
  dir: string;
  /** The node's address, which is also the gateway of its Pods. */
  address: string;
  /** The addresses of its Pods, of 10.88.0.0/16. */
  pods: { rangeStart: string; rangeEnd: string };
  /** The control group of the node, which contains those of its Pods. */
  cgroup: string;
  kubeconfig: string;
  clientCAFile: string;
  /** The file system of its Pods' volumes. XFS, the default of nodes on EKS, where it can be mounted. @default the machine's */
  disk?: "xfs";
  /** The process with the node's network and mounts. @default this one's */
  namespacesOf?: number;
}

export interface RunningNode {
  name: string;
  /** The kubelet and containerd. The containers run on. */
  programs: { kill: () => Promise<void>; start: () => Promise<void> };
  stop: () => Promise<void>;
}

export const bridge = "cni0";
const containerdSocket = "/run/containerd/containerd.sock";

/** Starts containerd and a kubelet, until the node is Ready. */
export async function startNode(setting: ClusterSetting, options: NodeOptions): Promise<RunningNode> {
  const { tools } = setting;
  const { name, dir, kubeconfig } = options;
  const run = (program: string, args: string[]) => runProgram(...entering(options, program, args));
  const start = async (program: "containerd" | "kubelet", args: string[], environment: Record<string, string> = {}) => {
    const [entered, all] = entering(options, tools[program], args);
    const logPath = join(dir, `${program}.log`);
    return startChild({ program: entered, args: all, cwd: dir, logPath, clock, environment });
  };
  const untilReady = (child: Child, what: string, ready: () => Promise<boolean>) =>
    waitUntilReady(child, { what, ready, timeoutMilliseconds: 120_000, clock });

  await mkdir(dir, { recursive: true });
  await makeMounts(options, run);
  const environment = { PATH: `${join(tools["containerd-shim-runc-v2"], "..")}:${process.env["PATH"] ?? ""}` };
  const containerdConfig = ["--config", await containerdSetting(setting, options)];
  let containerd = await start("containerd", containerdConfig, environment);
  const ctr = ["--address", containerdSocket, "--namespace", "k8s.io"];
  const ctrWorks = (...args: string[]) =>
    run(tools.ctr, [...ctr, ...args]).then(
      () => true,
      () => false,
    );
  await untilReady(containerd, "containerd", () => ctrWorks("version"));
  await run(tools.ctr, [...ctr, "images", "import", setting.images]);
  const profile = join(dir, "kubelet", "seccomp", cellSeccompProfile);
  await mkdir(dirname(profile), { recursive: true });
  await copyFile(fileURLToPath(new URL("../../images/cell-seccomp.json", import.meta.url)), profile);
  const config = await kubeletSetting(options);
  const startKubelet = () =>
    start("kubelet", [
      `--config=${config}`,
      `--kubeconfig=${kubeconfig}`,
      `--hostname-override=${name}`,
      `--node-ip=${options.address}`,
      `--root-dir=${dir}/kubelet`,
      `--cert-dir=${dir}/kubelet-pki`,
    ]);
  let kubelet = await startKubelet();
  await untilReady(kubelet, `the node ${name}`, async () => {
    const printed = await runProgram(tools.kubectl, ["--kubeconfig", kubeconfig, "get", "node", name]).catch(
      () => undefined,
    );
    return printed?.stdout.includes(" Ready ") === true;
  });
  return {
    name,
    programs: {
      kill: async () => {
        await kubelet.kill();
        await containerd.kill();
      },
      start: async () => {
        containerd = await start("containerd", containerdConfig, environment);
        await untilReady(containerd, "containerd", () => ctrWorks("version"));
        kubelet = await startKubelet();
      },
    },
    stop: async () => {
      await kubelet.stop();
      await containerd.stop();
    },
  };
}

/** A node whose network can be cut: neither it nor its Pods reach others then, and all of them run on. */
export interface SecondNode extends RunningNode {
  /** The program and arguments that run a program on the node. */
  entering: (program: string, args: string[]) => [string, string[]];
  network: { cut: () => Promise<unknown>; mend: () => Promise<unknown> };
}

/** A second node of the cluster, with its own network and mounts. Its Pods and those of the first node are on one network. */
export async function startSecondNode(setting: ClusterSetting): Promise<SecondNode> {
  const dir = join(setting.dir, "node-b");
  await mkdir(dir);
  const logPath = join(dir, "namespaces.log");
  const args = ["--net", "--mount", "--propagation", "private", "sleep", "infinity"];
  const holder = await startChild({ program: "unshare", args, cwd: dir, logPath, clock });
  const namespacesOf = holder.pid;
  await waitUntilReady(holder, { what: "the namespaces of node-b", ready: () => isSleeping(namespacesOf), clock });
  const address = "10.88.128.1";
  const options: NodeOptions = {
    name: "node-b",
    dir,
    address,
    pods: { rangeStart: "10.88.128.2", rangeEnd: "10.88.255.250" },
    cgroup: `${setting.cgroup}/node-b`,
    kubeconfig: join(dir, "kubeconfig"),
    clientCAFile: join(setting.dir, "pki", "ca.crt"),
    namespacesOf,
  };
  const kubeconfig = await readFile(join(setting.dir, "kubeconfig"), "utf8");
  await writeFile(
    options.kubeconfig,
    kubeconfig.replace("https://127.0.0.1:443", `https://${controlPlaneAddress}:443`),
  );
  const cable = ["to-node-b", "to-node-a"] as const;
  await runProgram("ip", [
    "link",
    "add",
    cable[0],
    "type",
    "veth",
    "peer",
    "name",
    cable[1],
    "netns",
    String(namespacesOf),
  ]);
  await runProgram("ip", ["link", "set", cable[0], "master", bridge, "up"]);
  const ip = (...args: string[]) => runProgram(...entering(options, "ip", args));
  await ip("link", "set", "lo", "up");
  await makeBridge(ip, address);
  await ip("link", "set", cable[1], "master", bridge, "up");
  await ip("route", "add", "10.96.0.0/16", "via", controlPlaneAddress);
  await runProgram(...entering(options, "sh", ["-c", "echo 1 > /proc/sys/net/ipv4/ip_forward"]));
  const node = await startNode(setting, options);
  const setCable = (state: "up" | "down") => runProgram("ip", ["link", "set", cable[0], state]);
  return {
    ...node,
    entering: (program, all) => entering(options, program, all),
    network: { cut: () => setCable("down"), mend: () => setCable("up") },
    stop: async () => {
      await node.stop();
      await holder.kill();
    },
  };
}

/** `unshare` has made the namespaces when it has become `sleep`. */
async function isSleeping(pid: number): Promise<boolean> {
  return (await readFile(`/proc/${pid}/comm`, "utf8")).trim() === "sleep";
}

export async function makeBridge(ip: (...args: string[]) => Promise<unknown>, address: string): Promise<void> {
  await ip("link", "add", bridge, "type", "bridge");
  await ip("address", "add", `${address}/16`, "dev", bridge);
  await ip("link", "set", bridge, "up");
}

function entering({ namespacesOf }: NodeOptions, program: string, args: string[]): [string, string[]] {
  if (namespacesOf === undefined) return [program, args];
  return ["nsenter", [`--target=${namespacesOf}`, "--net", "--mount", "--", program, ...args]];
}

/** The sockets and the state of the node's programs disappear with these mounts. The kubelet's mounts must propagate into containers. */
async function makeMounts(
  { dir, disk }: NodeOptions,
  run: (program: string, args: string[]) => Promise<unknown>,
): Promise<void> {
  await run("mount", ["-t", "tmpfs", "tmpfs", "/run"]);
  const kubelet = join(dir, "kubelet");
  await mkdir(kubelet);
  const bind = () => run("mount", ["--bind", kubelet, kubelet]);
  if (disk === undefined) await bind();
  else {
    await mountXfs({ image: join(dir, "kubelet.xfs"), path: kubelet, gibibytes: 24 }, run).catch(
      async (error: unknown) => {
        console.error(`The node's disk is not XFS, because that cannot be mounted here: ${String(error)}`);
        await bind();
      },
    );
  }
  await run("mount", ["--make-rshared", kubelet]);
}

async function containerdSetting({ cni }: ClusterSetting, { dir, address, pods }: NodeOptions): Promise<string> {
  const ranges = [[{ subnet: "10.88.0.0/16", ...pods, gateway: address }]];
  const network = {
    cniVersion: "1.0.0",
    name: "pods",
    plugins: [
      {
        type: "bridge",
        bridge,
        isGateway: true,
        hairpinMode: true,
        ipam: { type: "host-local", dataDir: join(dir, "ipam"), ranges, routes: [{ dst: "0.0.0.0/0" }] },
      },
    ],
  };
  await mkdir(join(dir, "cni"));
  await writeFile(join(dir, "cni", "10-pods.conflist"), JSON.stringify(network));
  for (const host of Object.values(registries)) {
    const directory = join(dir, "certs.d", host);
    await mkdir(directory, { recursive: true });
    await writeFile(join(directory, "hosts.toml"), `server = "http://${host}"\n`);
  }
  const path = join(dir, "containerd.toml");
  const text = `version = 3
root = "${dir}/containerd"
[plugins."io.containerd.cri.v1.images".pinned_images]
  sandbox = "localhost/pause:test"
[plugins."io.containerd.cri.v1.images".registry]
  config_path = "${dir}/certs.d"
[plugins."io.containerd.cri.v1.runtime"]
  # On some machines, not even root may lower a score.
  restrict_oom_score_adj = true
[plugins."io.containerd.cri.v1.runtime".cni]
  bin_dirs = ["${cni}"]
  conf_dir = "${dir}/cni"
`;
  await writeFile(path, text);
  return path;
}

async function kubeletSetting({ dir, cgroup, clientCAFile }: NodeOptions): Promise<string> {
  const path = join(dir, "kubelet.yaml");
  const resolvConf = join(dir, "resolv.conf");
  await writeFile(resolvConf, `nameserver ${controlPlaneAddress}\n`);
  const setting = {
    apiVersion: "kubelet.config.k8s.io/v1beta1",
    kind: "KubeletConfiguration",
    authentication: { anonymous: { enabled: false }, x509: { clientCAFile } },
    cgroupDriver: "cgroupfs",
    cgroupRoot: `/${cgroup}`,
    failCgroupV1: false,
    failSwapOn: false,
    containerRuntimeEndpoint: `unix://${containerdSocket}`,
    // Ignores settings of the machine that it cannot change, as in a container or without CAP_SYS_RESOURCE.
    featureGates: { KubeletInUserNamespace: true },
    evictionHard: { "memory.available": "100Mi", "nodefs.available": "1%", "imagefs.available": "1%" },
    // The images come from a file once, and the disk of this machine may be nearly full.
    imageGCHighThresholdPercent: 100,
    podLogsDir: join(dir, "pod-logs"),
    resolvConf,
    clusterDNS: [controlPlaneAddress],
    makeIPTablesUtilChains: false,
    enforceNodeAllocatable: [],
    // How often the files of changed Secrets are updated. A test waits for that.
    syncFrequency: "10s",
  };
  await writeFile(path, stringify(setting));
  return path;
}
