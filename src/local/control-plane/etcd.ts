import { mkdir } from "node:fs/promises";
import { connect } from "node:net";
import { join } from "node:path";
import type { Clock } from "../../base/clock.ts";
import { type Child, startChild } from "./child.ts";
import { waitUntilReady } from "./readiness.ts";

export interface EtcdOptions {
  /** Path of the `etcd` program. */
  program: string;
  /** The cluster's folder. It must be the user's own: whoever can open the socket in it can read and change everything. */
  dir: string;
  /** Whether a write is on the disk before it is answered. Without it a power cut can lose the whole database. */
  durable: boolean;
  clock: Clock;
  signal?: AbortSignal;
}

/**
 * How the API server names etcd: a Unix socket in the cluster's folder, which is the API server's working folder.
 * Unlike a TCP port it is closed to other users of the machine without certificates, and cannot be taken. gRPC reads
 * what follows `unix://` as a path; the number is only there because etcd wants `host:port`.
 */
export const etcdEndpoint = "unix://etcd.sock:0";

/** Starts one etcd and waits until it accepts connections. */
export async function startEtcd(options: EtcdOptions): Promise<Child> {
  await mkdir(join(options.dir, "etcd"), { recursive: true, mode: 0o700 });
  const peers = "unix://etcd-peer.sock:0";
  const etcd = await startChild({
    program: options.program,
    cwd: options.dir,
    logPath: join(options.dir, "etcd.log"),
    clock: options.clock,
    // One member with few keys: what the larger heap of the default would save is not worth its memory.
    environment: { GOGC: "50", GOMAXPROCS: "2" },
    args: [
      "--name=ramet",
      "--data-dir=etcd",
      `--listen-client-urls=${etcdEndpoint}`,
      `--advertise-client-urls=${etcdEndpoint}`,
      `--listen-peer-urls=${peers}`,
      `--initial-advertise-peer-urls=${peers}`,
      `--initial-cluster=ramet=${peers}`,
      // The only member elects itself after one to five heartbeats, so a start waits for it; each costs a little at rest.
      "--heartbeat-interval=100",
      "--election-timeout=500",
      "--auto-compaction-mode=periodic",
      "--auto-compaction-retention=15m",
      "--snapshot-count=10000",
      "--log-level=warn",
      `--unsafe-no-fsync=${String(!options.durable)}`,
    ],
  });
  await waitUntilReady(etcd, {
    what: "etcd",
    clock: options.clock,
    timeoutMilliseconds: 60_000,
    ...(options.signal === undefined ? {} : { signal: options.signal }),
    ready: () => socketAccepts(join(options.dir, "etcd.sock:0")),
  });
  return etcd;
}

/** Whether somebody listens on a Unix socket. */
function socketAccepts(path: string): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect(path);
    socket.once("connect", () => {
      socket.destroy();
      resolve(true);
    });
    socket.once("error", () => {
      resolve(false);
    });
  });
}
