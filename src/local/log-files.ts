import { on } from "node:events";
import { watch } from "node:fs";
import { open, stat } from "node:fs/promises";
import type { Writable } from "node:stream";
import { RametError } from "../base/errors.ts";
import type { ClusterDirectory } from "./cluster-directory.ts";

/** The parts of a cluster that have a log. */
export const logParts = [
  "supervisor",
  "etcd",
  "api-server",
  "controller",
  "gateway",
  "client-api",
  "node",
  "csi-driver",
  "snapshot-controller",
  "csi-snapshotter",
] as const;
export type LogPart = (typeof logParts)[number];

export interface SendLogOptions {
  part: LogPart;
  follow: boolean;
  signal: AbortSignal;
}

/** How much of the existing log is written first. */
const tailBytes = 64 * 1024;

/** Writes the end of a part's log. With `follow`, also writes new lines until `signal` is aborted. */
export async function sendPartLog(directory: ClusterDirectory, to: Writable, options: SendLogOptions): Promise<void> {
  const path = directory.log(options.part);
  const size = await stat(path).then(
    (found) => found.size,
    (cause: unknown) => {
      throw new RametError(
        "NotFound",
        `Cannot read the log of ${options.part}: the cluster ${directory.name} has never started it`,
        { hint: "Start a cluster with `ramet local up`, or name another one with --name: ramet local ls", cause },
      );
    },
  );
  const file = await open(path, "r");
  try {
    let at = Math.max(0, size - tailBytes);
    const send = async (): Promise<void> => {
      for (;;) {
        const { bytesRead, buffer } = await file.read(Buffer.alloc(65536), 0, 65536, at);
        if (bytesRead === 0) return;
        at += bytesRead;
        to.write(buffer.subarray(0, bytesRead));
      }
    };
    await send();
    if (options.follow) await onEachChange(path, send, options.signal);
  } finally {
    await file.close();
  }
}

async function onEachChange(path: string, act: () => Promise<void>, signal: AbortSignal): Promise<void> {
  const watcher = watch(path);
  try {
    const changes = on(watcher, "change", { signal });
    // The file may have grown before the watch started.
    await act();
    for await (const _ of changes) await act();
  } catch (error) {
    if (!signal.aborted) throw error;
  } finally {
    watcher.close();
  }
}
