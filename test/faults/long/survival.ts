import { setTimeout as sleep } from "node:timers/promises";
import type { Sandbox } from "../../../src/api/kinds/sandbox.ts";
import { mismatch, nextEntry, type Entry } from "./ledger.ts";
import type { Severity } from "./plan.ts";
import { isReady, settlingMilliseconds, type LongWorld } from "./world.ts";

/** The fate of a sandbox. */
export interface Survival {
  /** Undefined: it was lost. */
  now?: { sandbox: Sandbox; entry: Entry };
  wrong: string[];
}

/**
 * Checks that a sandbox continues with the same memory, files and process. Only a deadly fault may lose it; then its phase is
 * Failed, with a message.
 */
export async function continues(
  world: LongWorld,
  { metadata }: Sandbox,
  before: Entry,
  severity: Severity,
): Promise<Survival> {
  const { name } = metadata;
  let reason = "";
  for (const deadline = Date.now() + settlingMilliseconds; Date.now() < deadline;) {
    const sandbox = await world.repeat(() => world.cluster.sandboxes.find(metadata));
    if (sandbox === undefined) return { wrong: [`the sandbox ${name} is gone`] };
    if (sandbox.status?.phase === "Failed") return { wrong: failureIsWrong(sandbox, severity) };
    reason = `it is ${sandbox.status?.phase ?? "without a phase"}`;
    try {
      if (isReady(sandbox)) {
        const entry = await nextEntry(sandbox.status?.sandboxIp ?? "");
        const wrong = mismatch(before, entry);
        return { now: { sandbox, entry }, wrong: wrong === undefined ? [] : [`the sandbox ${name}: ${wrong}`] };
      }
    } catch (error) {
      // A killed process shows in the status a little later.
      reason = `it does not respond: ${String((error as Error).cause ?? error)}`;
    }
    await sleep(100);
  }
  return { wrong: [`the sandbox ${name} neither responds nor is Failed: ${reason}`] };
}

/** A failed sandbox has a message, nothing is under way in it, and its spec is observed. */
function failureIsWrong({ metadata, status }: Sandbox, severity: Severity): string[] {
  const what = `the sandbox ${metadata.name} is Failed`;
  const message = status?.message ?? "";
  if (severity !== "deadly") return [`${what} although no process of it was killed: ${message}`];
  const reasons = ["Pending", "CheckpointCreating", "Loading", "Restoring"];
  const wrong = (status?.conditions ?? []).filter((one) => one.status === "False" && reasons.includes(one.reason));
  return [
    ...(message === "" ? [`${what} without a message`] : []),
    ...wrong.map(({ type, reason }) => `${what} with ${type}=False (${reason})`),
    ...(status?.observedGeneration === metadata.generation ? [] : [`${what} and its generation is not observed`]),
  ];
}
