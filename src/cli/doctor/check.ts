import { readFile } from "node:fs/promises";
import { findingLevels, type Finding } from "../../preflight/finding.ts";
import { checkTheCluster } from "../../preflight/preflight.ts";
import { type ClusterOptions, withCluster } from "../cluster/cluster.ts";
import { exitCodes } from "../report-error.ts";
import { type Io, writeAll } from "../io.ts";
import { table } from "../output/render.ts";
import { RametError } from "../../base/errors.ts";
import type { StoredSnapshot } from "../../preflight/cluster-facts.ts";

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

/**
 * Reads the storage's own list of its snapshots: a handle a line, which can be followed by the time of the snapshot (RFC 3339).
 *
 * @throws RametError `NotFound`, `InvalidArgument`
 */
async function readStoredSnapshots(path: string): Promise<StoredSnapshot[]> {
  const text = await readFile(path, "utf8").catch((cause: unknown) => {
    throw new RametError("NotFound", `Reading the list of snapshots failed: ${path}`, {
      hint: "Write a file with one handle a line, and name it with --snapshot-handles",
      cause,
    });
  });
  return parseStoredSnapshots(text);
}

/** @throws RametError `InvalidArgument` */
export function parseStoredSnapshots(text: string): StoredSnapshot[] {
  const lines = text.split("\n").map((line) => line.trim());
  return lines.flatMap((line, index) => {
    if (line === "") return [];
    const [handle = "", createdAt] = line.split(/\s+/);
    if (createdAt !== undefined && Number.isNaN(Date.parse(createdAt)))
      throw new RametError(
        "InvalidArgument",
        `Line ${index + 1} of the list of snapshots has no time after the handle`,
        { hint: "Write a handle, or a handle and a time such as 2030-01-01T00:00:00Z" },
      );
    return [{ handle, createdAt }];
  });
}
