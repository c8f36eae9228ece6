import { type DrainPlan, type DrainStep, planDrain, readDrain } from "../../preflight/plan-drain.ts";
import type { Cluster } from "../cluster/cluster.ts";
import { type Io, printLine, writeAll } from "../io.ts";
import { inOrder, size, table } from "../output/render.ts";

interface DrainOptions {
  node: string;
  output: "table" | "json";
}

/** `ramet node drain --plan`: prints what a drain of a node does to the sandboxes of all namespaces. Changes nothing. */
export async function printDrainPlan(io: Io, cluster: Cluster, { node, output }: DrainOptions): Promise<void> {
  const plan = planDrain(await readDrain(cluster.client, node, io.signal));
  const steps = inOrder(plan.steps, (step) => step);
  if (output === "json") {
    const { steps: _, ...rest } = plan;
    await writeAll(io.stdout, `${JSON.stringify({ ...rest, items: steps }, undefined, 2)}\n`);
  } else if (steps.length === 0) {
    printLine(io.stdout, `The node ${node} has no sandboxes.`);
  } else {
    const headings = ["NAMESPACE", "SANDBOX", "OUTCOME", "SIZE", "CAPTURE", "HELD", "SUFFICES", "NODES", "WHY"];
    await writeAll(io.stdout, `${table(headings, steps.map(rowOf))}\n${summary(plan)}\n`);
  }
}

function rowOf(step: DrainStep): string[] {
  const { namespace, name, outcome, sizeBytes, sizeOf, captureSeconds, heldSeconds, suffices, targets, why } = step;
  const isCaptured = heldSeconds !== undefined;
  return [
    namespace,
    name,
    outcome,
    `${sizeOf === "MemoryLimit" ? "≤ " : ""}${size(sizeBytes)}`,
    seconds(captureSeconds),
    seconds(heldSeconds),
    isCaptured ? (suffices ?? "Unknown") : "",
    targets === undefined ? "" : `${targets.length}`,
    why,
  ];
}

function seconds(value: number | undefined): string {
  return value === undefined ? "" : `${value.toFixed(value < 10 ? 1 : 0)}s`;
}

export function summary({ node, totals, seconds: time, storeBytesPerSecond: speed }: DrainPlan): string {
  const outcomes = [
    `${totals.Migrates} migrate`,
    `${totals.IsPaused} are paused`,
    `${totals.IsReplaced} are replaced`,
    `${totals.Ends} end`,
  ];
  const captures =
    time === undefined || speed === undefined
      ? "How long the captures take is unknown: no checkpoint of 16 MiB or more has shown the store's speed."
      : `The captures take ${seconds(time.least)} to ${seconds(time.most)}, with ${size(speed)} a second.`;
  const risks = [
    ...(totals.graceTooShort === 0
      ? []
      : [
          `The grace period of ${totals.graceTooShort} is too short: pause them first, or raise terminationGracePeriodSeconds of their templates.`,
        ]),
    ...(totals.withoutTarget === 0
      ? []
      : [`${totals.withoutTarget} have no other node now: add one, or run: kubectl uncordon NODE`]),
    ...(totals.Ends === 0 ? [] : [`${totals.Ends} lose their memory and files.`]),
  ];
  return [`Of the sandboxes on ${node}, ${outcomes.join(", ")}.`, captures, ...risks].join("\n");
}
