import type { NamedSnapshot } from "../../api/kinds/named-snapshot.ts";
import { snapshotState } from "../../api/state/named-snapshot.ts";
import { RametError } from "../../base/errors.ts";
import { logKey } from "../../controllers/named-snapshot/names.ts";
import { waitUntil } from "../../kube/wait-until.ts";
import { buildResult, stateOfBuild } from "../../operations/await-build.ts";
import type { Cluster } from "../cluster/cluster.ts";
import type { AccessFlags } from "../cluster/gateway-credentials.ts";
import { type Io, printLine, writeAll } from "../io.ts";
import { exitCodes, reportFailure } from "../report-error.ts";
import { requestStays } from "../wait/follow.ts";
import { StepPrinter, keptLogs } from "./step-printer.ts";

export interface SnapshotLogsOptions extends AccessFlags {
  name: string;
  /** Counted from 1. @default all */
  step?: number;
  /** A kept version. @default the latest build */
  version?: number;
  /** Follows the output until the latest build has ended. */
  follow?: boolean;
}

/** `ramet snapshot logs`: prints the output of a build's steps; only the end of long output is kept. */
export async function snapshotLogs(io: Io, cluster: Cluster, options: SnapshotLogsOptions): Promise<number> {
  const { name, step, version, follow = false } = options;
  const snapshot = await cluster.get(cluster.snapshots, name);
  if (follow) return followBuild(io, cluster, { snapshot, step, access: options });
  const digest = digestOfBuild(snapshot, version);
  const logs = await keptLogs(cluster, { snapshot: name, digest }, io.signal);
  const keys = Object.keys(logs)
    .filter((key) => step === undefined || key === logKey(step - 1))
    .sort();
  if (version === undefined) noteOtherVersion(io, snapshot);
  if (keys.length === 0) printLine(io.stderr, "The steps printed nothing.");
  for (const key of keys) {
    if (step === undefined) printLine(io.stderr, `--- step ${Number(/\d+/.exec(key)?.[0])}`);
    await writeAll(io.stdout, logs[key] ?? "");
  }
  return exitCodes.ok;
}

function digestOfBuild({ metadata, status }: NamedSnapshot, version: number | undefined): string {
  const ofVersion = status?.versions?.find((one) => one.version === version);
  const digest = version === undefined ? status?.build?.digest : ofVersion?.digest;
  if (digest === undefined) throw noBuild(metadata, version);
  return digest;
}

/** A pin and a revert make an earlier version current, of which the latest build says nothing. */
function noteOtherVersion(io: Io, { metadata, status }: NamedSnapshot): void {
  if (status?.version === undefined || status.build?.digest === status.digest) return;
  printLine(
    io.stderr,
    `This is the latest build. Version ${status.version}, which is current, has another one: ramet snapshot logs ${metadata.name} --version ${status.version}`,
  );
}

function noBuild({ name, namespace }: NamedSnapshot["metadata"], version: number | undefined): RametError {
  const what = version === undefined ? "has not been built yet" : `keeps no version ${version}`;
  return new RametError("NotFound", `The snapshot ${name} ${what}`, {
    hint:
      version === undefined
        ? `See why with: ramet snapshot get ${name} -n ${namespace}`
        : `List its versions with: ramet snapshot history ${name} -n ${namespace}`,
  });
}

/**
 * `ramet snapshot logs --follow`: prints the output of the latest build from its first step until it has ended, also if it has
 * already ended. The exit code is the build's result.
 *
 * @throws RametError `Canceled`
 */
async function followBuild(
  io: Io,
  cluster: Cluster,
  { snapshot, step, access }: { snapshot: NamedSnapshot; step: number | undefined; access: AccessFlags },
): Promise<number> {
  const { name, namespace, generation } = snapshot.metadata;
  const broken = new AbortController();
  const signal = AbortSignal.any([io.signal, broken.signal]);
  const printer = new StepPrinter({ io, cluster, step, access, signal });
  let last: NamedSnapshot | undefined = snapshot;
  try {
    await waitUntil({
      resource: cluster.snapshots,
      from: snapshot,
      timeoutMilliseconds: Infinity,
      signal,
      until: (seen) => seen === undefined || !["waiting", "building"].includes(snapshotState(seen, generation).is),
      onState: (seen) => {
        last = seen;
        // Until the controller has seen this generation, the status describes the previous build.
        if (seen !== undefined && (seen.status?.observedGeneration ?? 0) >= (generation ?? 0)) {
          printer.see(seen).catch((error: unknown) => {
            broken.abort(error);
          });
        }
      },
    });
    await printer.flush();
  } catch (error) {
    if (broken.signal.aborted) throw broken.signal.reason;
    const state = stateOfBuild(last);
    const look = `ramet snapshot get ${name} -n ${namespace}`;
    throw requestStays(error, { what: `the build of ${name}`, state, look });
  }
  const settled = buildResult(name, last);
  return "failure" in settled ? reportFailure(io, RametError.from(settled.failure)) : exitCodes.ok;
}
