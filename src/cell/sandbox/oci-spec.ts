import { posix } from "node:path";
import type { ContainerSpec } from "../../api/wire/cell-api.ts";
import { defined } from "../../base/defined.ts";

/** The path of the guest's program inside every sandbox. */
export const guestPathInside = "/.ramet/guest";

export interface OciSpecOptions {
  container: ContainerSpec;
  hostname: string;
  rootPath: string;
  /** The guest's program, and the directory of `resolv.conf`: paths in the cell. */
  guestPath: string;
  etcPath: string;
  netnsPath: string;
  /** A tar of changed files, which gVisor unpacks over the image before the first process starts. */
  filesystemTar?: string | undefined;
}

/**
 * Returns the OCI runtime specification (version 1.2) of a sandbox. On a restore gVisor compares args, cwd, user, mounts, devices
 * and capabilities. Root path, environment, host name and resources may differ between clones.
 */
export function ociSpec(options: OciSpecOptions): Record<string, unknown> {
  const { container } = options;
  return {
    ociVersion: "1.2.1",
    hostname: options.hostname,
    process: {
      terminal: false,
      user: { uid: 0, gid: 0 },
      cwd: "/",
      args: guestArguments(container),
      env: environment(container),
      capabilities: { bounding: capabilities, effective: capabilities, permitted: capabilities, inheritable: [] },
      rlimits: [{ type: "RLIMIT_NOFILE", soft: 65536, hard: 65536 }],
      noNewPrivileges: false,
    },
    root: { path: options.rootPath, readonly: container.readOnlyRoot },
    mounts: mounts(options),
    linux: {
      namespaces: [
        { type: "pid" },
        { type: "mount" },
        { type: "ipc" },
        { type: "uts" },
        { type: "network", path: options.netnsPath },
      ],
      resources: resources(container),
    },
    annotations: {
      ...Object.assign({}, ...container.mounts.map(emptyDirHint)),
      ...defined({ "dev.gvisor.tar.rootfs.upper": options.filesystemTar }),
    },
  };
}

/**
 * The capabilities of PID 1 in gVisor's kernel: the default set of containers, plus those to set the host name and to trace. They
 * give no rights on the node.
 */
const capabilities = [
  "CAP_AUDIT_WRITE",
  "CAP_CHOWN",
  "CAP_DAC_OVERRIDE",
  "CAP_FOWNER",
  "CAP_FSETID",
  "CAP_KILL",
  "CAP_MKNOD",
  "CAP_NET_BIND_SERVICE",
  "CAP_SETFCAP",
  "CAP_SETGID",
  "CAP_SETPCAP",
  "CAP_SETUID",
  "CAP_SYS_ADMIN",
  "CAP_SYS_CHROOT",
  "CAP_SYS_PTRACE",
];

function guestArguments(container: ContainerSpec): string[] {
  const entrypoint = [...container.command, ...container.args];
  const { uid, gid } = container.user;
  // Without a working directory, commands start in their user's home directory.
  const cwd = container.workingDir === undefined ? [] : ["--cwd", container.workingDir];
  const flags = [...cwd, "--uid", `${uid}`, "--gid", `${gid}`, ...(hasOwnTmp(container) ? ["--disk-tmp"] : [])];
  return entrypoint.length === 0 ? [guestPathInside, ...flags] : [guestPathInside, ...flags, "--", ...entrypoint];
}

/** Whether /tmp belongs to the root. A read-only root has no writable /tmp to show, and a volume there stays. */
export function hasOwnTmp({ readOnlyRoot, mounts }: ContainerSpec): boolean {
  return !readOnlyRoot && !mounts.some(({ target }) => posix.join(target, "/") === "/tmp/");
}

function environment(container: ContainerSpec): string[] {
  const variables = new Map(container.env.map(({ name, value }) => [name, value]));
  if (!variables.has("PATH")) variables.set("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin");
  return [...variables].map(([name, value]) => `${name}=${value}`);
}

function mounts({ container, guestPath, etcPath }: OciSpecOptions): Record<string, unknown>[] {
  const readOnlyFile = (destination: string, source: string): Record<string, unknown> => ({
    destination,
    source,
    type: "bind",
    options: ["bind", "ro"],
  });
  return [
    { destination: "/proc", type: "proc", source: "proc" },
    { destination: "/sys", type: "sysfs", source: "sysfs", options: ["nosuid", "noexec", "nodev", "ro"] },
    { destination: "/dev/shm", type: "tmpfs", source: "tmpfs", options: ["nosuid", "nodev", "mode=1777"] },
    readOnlyFile(guestPathInside, guestPath),
    readOnlyFile("/etc/resolv.conf", `${etcPath}/resolv.conf`),
    ...container.mounts.map(({ source, target, readOnly }) => ({
      destination: target,
      source,
      type: "bind",
      options: ["rbind", readOnly ? "ro" : "rw"],
    })),
  ];
}

/**
 * Makes gVisor keep an emptyDir in memory that is backed by a hidden file in the volume. Every memory checkpoint then includes
 * it, and the kubelet still counts its size. As a bind mount it would be empty in a clone, without the files that programs have
 * open. Other volumes exist outside the sandbox and stay bind mounts.
 */
function emptyDirHint(
  { source, emptyDir }: ContainerSpec["mounts"][number],
  index: number,
): Record<string, string> | undefined {
  if (emptyDir === undefined) return undefined;
  const hint = `dev.gvisor.spec.mount.volume-${index}`;
  const size = emptyDir.sizeLimitBytes === undefined ? "" : `,size=${emptyDir.sizeLimitBytes}`;
  return {
    [`${hint}.source`]: source,
    [`${hint}.type`]: "tmpfs",
    [`${hint}.share`]: "container",
    // The mode of a kubelet's emptyDir: writable by every user.
    [`${hint}.options`]: `rw,mode=0777${size}`,
  };
}

function resources({ resources: { memoryBytes, cpuMillis } }: ContainerSpec): Record<string, unknown> {
  const period = 100_000;
  return {
    ...(memoryBytes === undefined ? {} : { memory: { limit: memoryBytes } }),
    ...(cpuMillis === undefined
      ? {}
      : { cpu: { period, quota: Math.max(1000, Math.round((cpuMillis * period) / 1000)) } }),
  };
}
