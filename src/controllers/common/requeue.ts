import type { ReconcileResult } from "../../kube/controller.ts";

/** When a key is looked at again though nothing has changed: at once where that instant is past, never where there is none. */
export function lookAgain({ now }: { now: Date }, { lookAgainAt }: { lookAgainAt?: Date }): ReconcileResult {
  if (lookAgainAt === undefined) return;
  return { requeueAfterMilliseconds: Math.max(1, lookAgainAt.getTime() - now.getTime()) };
}
