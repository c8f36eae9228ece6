import { mkdir } from "node:fs/promises";
import { join } from "node:path";
import type { Clock } from "../../base/clock.ts";
import { socketAccepts } from "../../base/http.ts";
import { type Child, startChild, waitUntilReady } from "./child.ts";

export interface EtcdOptions {
  /** Path of the `etcd` program. */
  program: string;
  /** The cluster's directory. Only the user may have access: the socket in it gives full access to the database. */
  dir: string;
  /** Whether a write is synced to disk before etcd responds. Without it a power failure can lose the whole database. */
  durable: boolean;
  clock: Clock;
  signal?: AbortSignal | undefined;
}

/**
 * etcd's endpoint: a Unix socket in the cluster's directory, which is also the API server's working directory. Unlike a TCP
 * port, other users cannot open it, no certificate is needed, and no other program can use it. gRPC reads the text after
 * `unix://` as a path; the number is present because etcd requires `host:port`.
 */
export const etcdEndpoint = "unix://etcd.sock:0";

/** Starts etcd. Resolves when it accepts connections. */
export async function startEtcd(options: EtcdOptions): Promise<Child> {
  await mkdir(join(options.dir, "etcd"), { recursive: true, mode: 0o700 });
  const peers = "unix://etcd-peer.sock:0";
  const etcd = await startChild({
    program: options.program,
    cwd: options.dir,
    logPath: join(options.dir, "etcd.log"),
    clock: options.clock,
    // One member with few keys: Go's default heap growth would cost memory for little CPU time.
    environment: { GOGC: "50", GOMAXPROCS: "2" },
    args: [
      "--name=ramet",
      "--data-dir=etcd",
      `--listen-client-urls=${etcdEndpoint}`,
      `--advertise-client-urls=${etcdEndpoint}`,
      `--listen-peer-urls=${peers}`,
      `--initial-advertise-peer-urls=${peers}`,
      `--initial-cluster=ramet=${peers}`,
      // The only member elects itself after one to five heartbeats, which delays the start. More heartbeats cost CPU time at rest.
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
    signal: options.signal,
    ready: () => socketAccepts(join(options.dir, "etcd.sock:0")),
  });
  return etcd;
}
