import { randomUUID } from "node:crypto";
import { RametError } from "../../base/errors.ts";
import { annotations, scaleDownOwner } from "../../api/names/labels.ts";
import type { Sandbox } from "../../api/kinds/sandbox.ts";
import { createSandboxes } from "./create-sandboxes.ts";
import type { SetDependencies } from "./dependencies.ts";
import type { SetAction, SetState } from "./state.ts";
import { markTemplate, writeTemplate } from "./templates.ts";

/** Carries out one action. Each can be repeated; who was claimed or is gone meanwhile is passed over. */
export async function applyAction(
  { set }: SetState,
  action: SetAction,
  dependencies: SetDependencies,
  signal: AbortSignal,
): Promise<void> {
  switch (action.do) {
    case "writeTemplate":
      await writeTemplate(set, action.revision, dependencies);
      return;
    case "markTemplate":
      await unlessChanged(markTemplate(action, dependencies));
      return;
    case "create":
      await createSandboxes(set, action, dependencies, signal);
      return;
    case "retire":
    case "remove": {
      const giveUp = action.do === "retire" ? retire : remove;
      const isDone = await unlessChanged(giveUp(action.sandbox, dependencies));
      if (isDone) dependencies.metrics?.deleted(set.metadata, action.why);
      return;
    }
  }
}

/** First the lock, in one write that loses against any other: a claimer that comes later finds it taken. */
async function retire(sandbox: Sandbox, dependencies: SetDependencies): Promise<void> {
  const { informers, sandboxWrites, newSandboxes } = dependencies;
  const { uid, resourceVersion } = sandbox.metadata;
  const locked = { [annotations.lock]: randomUUID(), [annotations.owner]: scaleDownOwner };
  await sandboxWrites.write(sandbox, () =>
    informers.sandboxes.resource.mergePatch(sandbox.metadata, {
      metadata: { uid, resourceVersion, annotations: locked },
    }),
  );
  await informers.sandboxes.resource.delete(sandbox.metadata, { uid });
  newSandboxes.deleting(uid);
}

/** Only as it was judged: somebody may have taken it since. */
async function remove({ metadata }: Sandbox, { informers, newSandboxes }: SetDependencies): Promise<void> {
  const { uid, resourceVersion } = metadata;
  await informers.sandboxes.resource.delete(metadata, { uid, resourceVersion });
  newSandboxes.deleting(uid);
}

/** A lost race is no error: the cache shows what the other one did, and the key comes again. */
async function unlessChanged(effect: Promise<void>): Promise<boolean> {
  try {
    await effect;
    return true;
  } catch (error) {
    const { code } = RametError.from(error);
    if (code !== "Conflict" && code !== "NotFound") throw error;
    return false;
  }
}
