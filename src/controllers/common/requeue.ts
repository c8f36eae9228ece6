import type { ReconcileResult } from "../../kube/controller.ts";

/** When a key is looked at again though nothing has changed: at once where that instant is past, never where there is none. */
export function requeue({ now }: { now: Date }, { requeueAt }: { requeueAt?: Date }): ReconcileResult {
  if (requeueAt === undefined) return;
  return { requeueAfterMilliseconds: Math.max(1, requeueAt.getTime() - now.getTime()) };
}
