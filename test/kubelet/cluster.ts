import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { stringify } from "yaml";
import { systemClock as clock } from "../../src/base/clock.ts";
import { startChild, type Child, waitUntilReady } from "../../src/local/control-plane/child.ts";
import { etcdEndpoint, startEtcd } from "../../src/local/control-plane/etcd.ts";
import { writeKubeconfig } from "../../src/local/control-plane/api-server.ts";
import { openPki } from "../../src/local/control-plane/pki.ts";
import { runProgram } from "../../src/local/tools/run-program.ts";
import { passwordLine } from "../setup/registry.ts";
import { accepts } from "../setup/loopback-server.ts";
import { type ClusterSetting, controlPlaneAddress as gateway, makeBridge, registries, startNode } from "./node.ts";

export interface KubeletCluster {
  kubeconfig: string;
  /** An S3 server with the bucket `checkpoints`, at an address that Pods can reach. */
  s3: { endpoint: string; environment: { AWS_ACCESS_KEY_ID: string; AWS_SECRET_ACCESS_KEY: string } };
  /** Two registries with the same images, by HTTP, at an address that Pods can reach. */
  registries: typeof registries;
  stop: () => Promise<void>;
}

/** The address of the Service `kubernetes`. The API server listens there, because kube-proxy does not run. */
const kubernetesAddress = "10.96.0.1";

/** Starts a cluster of one node with a real kubelet, containerd and runc, in the namespaces that main.ts has created. */
export async function startCluster(setting: ClusterSetting): Promise<KubeletCluster> {
  const { dir, tools } = setting;
  const children: Child[] = [];
  const start = async (program: keyof typeof tools, args: string[], environment?: Record<string, string>) => {
    const logPath = join(dir, `${program}.log`);
    const child = await startChild({
      program: tools[program],
      args,
      cwd: dir,
      logPath,
      clock,
      ...(environment && { environment }),
    });
    children.push(child);
    return child;
  };
  const untilReady = (child: Child, what: string, ready: () => Promise<boolean>) =>
    waitUntilReady(child, { what, ready, timeoutMilliseconds: 120_000, clock });

  await makeNetwork();
  const pki = await openPki(join(dir, "pki"), () => clock.now());
  const admin = await pki.issueTo("admin", { commonName: "admin", organizations: ["system:masters"], use: "client" });
  const hosts = ["127.0.0.1", gateway, kubernetesAddress, "kubernetes.default.svc"];
  const serving = await pki.issueTo("api-server", { commonName: "kube-apiserver", use: "server", hosts });
  const kubeconfig = join(dir, "kubeconfig");
  await writeKubeconfig(kubeconfig, { name: "kubelet", server: "https://127.0.0.1:443", ca: pki.ca, client: admin });
  const kubectl = async (...args: string[]): Promise<string> => {
    const { stdout } = await runProgram(tools.kubectl, ["--kubeconfig", kubeconfig, ...args], { cwd: dir });
    return stdout;
  };
  const answers = (...args: string[]) =>
    kubectl(...args).then(
      (printed) => printed !== "",
      () => false,
    );

  children.push(await startEtcd({ program: tools.etcd, dir, durable: false, clock }));
  const apiServer = await start("kube-apiserver", [
    `--etcd-servers=${etcdEndpoint}`,
    "--secure-port=443",
    "--bind-address=0.0.0.0",
    `--advertise-address=${gateway}`,
    "--service-cluster-ip-range=10.96.0.0/16",
    `--tls-cert-file=${serving.certificatePath}`,
    `--tls-private-key-file=${serving.keyPath}`,
    `--client-ca-file=${pki.caPath}`,
    "--authorization-mode=Node,RBAC",
    "--anonymous-auth=false",
    `--kubelet-client-certificate=${admin.certificatePath}`,
    `--kubelet-client-key=${admin.keyPath}`,
    "--kubelet-preferred-address-types=InternalIP",
    "--service-account-issuer=https://kubernetes.default.svc",
    `--service-account-key-file=${pki.serviceAccountKeyPath}`,
    `--service-account-signing-key-file=${pki.serviceAccountKeyPath}`,
  ]);
  await untilReady(apiServer, "the API server", () => answers("get", "--raw", "/readyz"));
  await start("kube-controller-manager", [
    `--kubeconfig=${kubeconfig}`,
    "--leader-elect=false",
    "--use-service-account-credentials",
    `--root-ca-file=${pki.caPath}`,
    `--service-account-private-key-file=${pki.serviceAccountKeyPath}`,
  ]);
  await start("kube-scheduler", [`--kubeconfig=${kubeconfig}`, "--leader-elect=false"]);
  const node = await startNode(setting, {
    name: "node-a",
    dir,
    address: gateway,
    pods: { rangeStart: "10.88.0.2", rangeEnd: "10.88.127.250" },
    cgroup: setting.cgroup,
    kubeconfig,
    clientCAFile: pki.caPath,
    disk: "xfs",
  });
  const s3 = await startS3(dir, start, untilReady);
  await startRegistries(dir, start, untilReady);
  return {
    kubeconfig,
    s3,
    registries,
    stop: async () => {
      await node.stop();
      for (const child of children.reverse()) await child.stop();
    },
  };
}

async function makeNetwork(): Promise<void> {
  const ip = (...args: string[]) => runProgram("ip", args);
  await ip("link", "set", "lo", "up");
  await ip("address", "add", `${kubernetesAddress}/32`, "dev", "lo");
  await makeBridge(ip, gateway);
  await writeFile("/proc/sys/net/ipv4/ip_forward", "1");
}

/** Both serve one directory, so that what is pushed to the first one can be pulled from the second one. */
async function startRegistries(
  dir: string,
  start: (program: "docker-registry", args: string[]) => Promise<Child>,
  untilReady: (child: Child, what: string, ready: () => Promise<boolean>) => Promise<void>,
): Promise<void> {
  const htpasswd = join(dir, "htpasswd");
  await writeFile(htpasswd, passwordLine);
  for (const [name, addr] of Object.entries(registries)) {
    const path = join(dir, `registry-${name}.yml`);
    const setting = {
      version: 0.1,
      log: { level: "error", accesslog: { disabled: true } },
      storage: { filesystem: { rootdirectory: join(dir, "registry") } },
      http: { addr },
      ...(name === "protected" && { auth: { htpasswd: { realm: "test", path: htpasswd } } }),
    };
    await writeFile(path, stringify(setting));
    const [host = "", port] = addr.split(":");
    const child = await start("docker-registry", ["serve", path]);
    await untilReady(child, "the registry", () => accepts(host, Number(port)));
  }
}

async function startS3(
  dir: string,
  start: (program: "versitygw", args: string[], environment: Record<string, string>) => Promise<Child>,
  untilReady: (child: Child, what: string, ready: () => Promise<boolean>) => Promise<void>,
): Promise<KubeletCluster["s3"]> {
  const port = 7070;
  const environment = { AWS_ACCESS_KEY_ID: "test", AWS_SECRET_ACCESS_KEY: "a-secret-of-the-test-server" };
  for (const directory of ["buckets/checkpoints", "sidecar"])
    await mkdir(join(dir, "s3", directory), { recursive: true });
  const server = await start(
    "versitygw",
    [
      `--port=${gateway}:${port}`,
      "--keep-alive",
      "--quiet",
      "posix",
      `--sidecar=${dir}/s3/sidecar`,
      `${dir}/s3/buckets`,
    ],
    { ROOT_ACCESS_KEY_ID: environment.AWS_ACCESS_KEY_ID, ROOT_SECRET_ACCESS_KEY: environment.AWS_SECRET_ACCESS_KEY },
  );
  await untilReady(server, "the S3 server", () => accepts(gateway, port));
  return { endpoint: `http://${gateway}:${port}`, environment };
}
