import { setTimeout as sleep } from "node:timers/promises";
import type { Lane, Outcome } from "./operations.ts";
import type { Operation, Severity } from "./plan.ts";
import { continues } from "./survival.ts";
import { settlingMilliseconds, type LongWorld } from "./world.ts";

/** Whether the outcome is one that the faults may have. @returns what is wrong */
export function outcomeIsWrong(operation: Operation, severity: Severity, outcome: Outcome): string[] {
  if (outcome.succeeded) return [];
  if (severity === "harmless") return [`${operation} failed although its faults are harmless: ${outcome.message}`];
  return outcome.message === "" ? [`${operation} failed without a message`] : [];
}

/** Checks the sandbox of a lane. */
export async function sourceIsWrong(
  world: LongWorld,
  lane: Lane,
  severity: Severity,
): Promise<{ lost: boolean; wrong: string[] }> {
  const { now, wrong } = await continues(world, lane.source, lane.last, severity);
  if (now === undefined) return { lost: true, wrong };
  lane.last = now.entry;
  lane.source = now.sandbox;
  return { lost: false, wrong };
}

/** Checks that the store has exactly the data of the checkpoints that have succeeded. */
export async function storeIsWrong(world: LongWorld): Promise<string[]> {
  return untilRight(async () => {
    const { items } = await world.repeat(() => world.cluster.checkpoints.list());
    const succeeded = items.filter(({ status }) => status?.phase === "Succeeded");
    const ids = succeeded.map(({ status }) => status?.checkpointId ?? "");
    const stored = await world.stored();
    return [
      ...stored.filter((id) => !ids.includes(id)).map((id) => `the store has ${id}, which no checkpoint needs`),
      ...ids.filter((id) => !stored.includes(id)).map((id) => `${id} has Succeeded and is not in the store`),
    ];
  });
}

/** Deletes everything, and checks that nothing is left: objects, data, processes, mounts, network namespaces, files. */
export async function emptyIsWrong(world: LongWorld): Promise<string[]> {
  await world.removeAll();
  const left = await untilRight(async () => {
    const { items } = await world.repeat(() => world.cluster.checkpoints.list());
    return [
      ...items.map(({ metadata }) => `the checkpoint ${metadata.name} is left`),
      ...(await world.podNames()).map((name) => `the Pod ${name} is left`),
      ...(await world.stored()).map((id) => `the data of ${id} is left`),
    ];
  });
  await world.sweepStore();
  const orphans = await untilRight(async () =>
    Object.entries(await world.orphans()).map(
      ([what, count]) => `${count} ${what} instead of those of an idle cluster`,
    ),
  );
  return [...left, ...orphans];
}

/** Repeats the check until nothing is wrong, or for the settling time. */
async function untilRight(check: () => Promise<string[]>): Promise<string[]> {
  for (const deadline = Date.now() + settlingMilliseconds; ;) {
    const wrong = await check();
    if (wrong.length === 0 || Date.now() > deadline) return wrong;
    await sleep(200);
  }
}
