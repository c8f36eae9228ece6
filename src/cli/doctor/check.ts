import { findingLevels, type Finding } from "../../preflight/finding.ts";
import { checkTheCluster } from "../../preflight/preflight.ts";
import { type ClusterOptions, withCluster } from "../cluster/cluster.ts";
import { exitCodes } from "../exit-codes.ts";
import { type Io, writeAll } from "../io.ts";
import { readStoredSnapshots } from "./stored-snapshots.ts";
import { table } from "../output/table.ts";

export interface DoctorOptions extends ClusterOptions {
  output: "table" | "json";
  /** Milliseconds for each read. */
  timeout: number;
  beside?: string;
  /** A file with the storage's own list of its snapshots. */
  snapshotHandles?: string;
}

/** `ramet doctor`: prints a finding for each check. The exit code is 1 if one is an error. */
export async function checkWithDoctor(io: Io, options: DoctorOptions): Promise<number> {
  const { snapshotHandles } = options;
  const storedSnapshots = snapshotHandles === undefined ? undefined : await readStoredSnapshots(snapshotHandles);
  // About fifty reads: with fewer connections to a distant API server, the last ones would run out of time.
  return withCluster(io, { ...options, connections: 12 }, async ({ client, namespace }) => {
    const { timeout: readMilliseconds, beside } = options;
    const { signal } = io;
    const findings = await checkTheCluster(client, { namespace, beside, readMilliseconds, storedSnapshots, signal });
    await writeAll(io.stdout, options.output === "json" ? asJson(findings) : asTable(findings));
    return findings.some(({ level }) => level === "error") ? exitCodes.failed : exitCodes.ok;
  });
}

/** The worst first. The action has its own line, because two sentences do not fit into columns. */
function asTable(findings: readonly Finding[]): string {
  const worstFirst = [...findings].sort((a, b) => findingLevels.indexOf(b.level) - findingLevels.indexOf(a.level));
  const rows = worstFirst.flatMap(({ level, check, message, action }) => [
    [level, check, message],
    ...(action === undefined ? [] : [["", "", `→ ${action}`]]),
  ]);
  return `${table(["LEVEL", "CHECK", "FINDING"], rows)}\n${summary(findings)}\n`;
}

function summary(findings: readonly Finding[]): string {
  const counts = [...findingLevels].reverse().flatMap((level) => {
    const count = findings.filter((one) => one.level === level).length;
    return count === 0 ? [] : [`${count} ${level}`];
  });
  return `${findings.length} checks: ${counts.join(", ")}`;
}

function asJson(findings: readonly Finding[]): string {
  const count = (level: Finding["level"]): number => findings.filter((one) => one.level === level).length;
  const summary = Object.fromEntries(findingLevels.map((level) => [level, count(level)]));
  return `${JSON.stringify({ findings, summary }, undefined, 2)}\n`;
}
