import type { Sandbox } from "../../api/kinds/sandbox.ts";
import type { Pod } from "../../api/schema/pod.ts";
import { keyOf } from "../../kube/object.ts";
import { awaitsNode, isCaptured, orderOf, podOfTemplate, takesTurn } from "./move-facts.ts";
import { isUnderWay } from "./pause-checkpoint.ts";
import { type Moving, planCaptures, planResumes, type Turn } from "./plan-moves.ts";
import { cellRuns, unscheduledWords } from "./pod-facts.ts";

interface ResumingSandboxes {
  /** Those whose Pods were ended and that continue. */
  moving: readonly Sandbox[];
  podOf: (key: string) => Pod | undefined;
  podOrLast: (key: string) => Pod | undefined;
  now: number;
  gainedAt: number;
  atOnce: number | undefined;
}

/**
 * Whose turn it is to get its next Pod, and then to be restored in it, by key. Both are limited: Pods can wait for a node, and all be there
 * when one joins. Pure.
 */
export function turnsToResume(all: ResumingSandboxes): Map<string, Turn> {
  const { moving, podOrLast, now, gainedAt, atOnce } = all;
  const captured = moving.filter((one) => isCaptured(one) && !awaitsNode(one, now, gainedAt));
  const resumes = planResumes({
    captured: captured.map((sandbox) => orderOf(sandbox, podOrLast(keyOf(sandbox.metadata)))),
    moving: captured.length === 0 ? [] : underWay(all),
    atOnce,
  });
  return new Map([...resumes, ...turnsToRestore(all)]);
}

/** Whether it waits for its turn, with or without its next Pod. */
export function resumesInTurn(sandbox: Sandbox, pod: Pod | undefined): boolean {
  return isCaptured(sandbox) || restoreOf(sandbox, pod)?.isGiven === false;
}

/** Without those that wait for a node or take too long. `pod`: what will be on another node. */
export function underWay({
  moving: all,
  podOrLast,
  now,
  gainedAt,
}: Omit<ResumingSandboxes, "podOf" | "atOnce">): (Moving & { pod?: Pod })[] {
  return all
    .filter((one) => takesTurn(one, now, gainedAt))
    .flatMap((sandbox) => {
      const { metadata, status } = sandbox;
      const { phase, podInfo: { nodeName = "" } = {} } = status ?? {};
      const moving = { namespace: metadata.namespace, nodeName, isResuming: phase === "Resuming" };
      const pod = podOrLast(keyOf(metadata)) ?? podOfTemplate(sandbox);
      if (pod === undefined || (moving.isResuming && pod.spec.nodeName !== undefined)) return [moving];
      return moving.isResuming && unscheduledWords(pod) !== undefined ? [] : [{ ...moving, pod }];
    });
}

/** Those that take too long wait for nobody. */
function turnsToRestore({ moving, podOf, now, gainedAt, atOnce }: ResumingSandboxes): Map<string, Turn> {
  const restores = moving.flatMap((sandbox) => {
    const pod = podOf(keyOf(sandbox.metadata));
    const restore = restoreOf(sandbox, pod);
    const isLate = !takesTurn(sandbox, now, gainedAt);
    return restore === undefined ? [] : [{ ...orderOf(sandbox, pod), ...restore, isLate }];
  });
  const waiting = restores.filter(({ isGiven }) => !isGiven);
  const begin = planCaptures({
    waiting: waiting.filter(({ isLate }) => !isLate).map((one) => ({ ...one, latestInMilliseconds: Infinity })),
    running: restores
      .filter(({ isGiven, isLate }) => isGiven && !isLate)
      .map(({ namespace, place }) => ({ namespace, ...place })),
    atOnce,
  });
  return new Map(
    waiting.map(({ key, isLate }) => [key, isLate || begin.has(key) ? { turn: "now" } : { turn: "later" }]),
  );
}

/** `isGiven`: the cell has the sandbox. Undefined: it does not resume after the end of its Pod, or has no cell yet. */
function restoreOf(
  { status }: Sandbox,
  pod: Pod | undefined,
): { place: { nodeName: string }; isGiven: boolean } | undefined {
  const { phase, ramet } = status ?? {};
  const isMoving = phase === "Resuming" && isUnderWay(ramet?.disruption);
  if (!isMoving || pod?.spec.nodeName === undefined || !cellRuns(pod)) return undefined;
  return { place: { nodeName: pod.spec.nodeName }, isGiven: ramet?.startingPod?.podUID === pod.metadata.uid };
}
