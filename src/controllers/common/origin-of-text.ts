import type { Checkpoint } from "../../api/kinds/checkpoint.ts";
import { RametError } from "../../base/errors.ts";
import type { PodTemplateSpec } from "../../api/schema/pod-template.ts";
import type { ControllerParts } from "./controller-parts.ts";
import { originFrom, unknownCheckpoint } from "../sandbox/origin.ts";
import { resolveReference } from "./resolve-reference.ts";
import type { Origin } from "../sandbox/state.ts";

type Known = Pick<ControllerParts, "cache" | "informers">;

/** The checkpoint that was found, and, once the template is known, whether a sandbox of that can start from it. */
export interface FoundOrigin {
  checkpoint?: Checkpoint;
  origin: (template: PodTemplateSpec | undefined) => Origin;
}

/**
 * What a `restore-from` or `rollback-to` text means for a sandbox of this namespace. What is wrong with it is the origin
 * `impossible`; nothing is thrown for it.
 *
 * @param readText undefined: none is given, and the origin is `new`
 */
export async function originOfText(
  namespace: string,
  readText: () => string | undefined,
  dependencies: Known,
): Promise<FoundOrigin> {
  try {
    const text = readText();
    if (text === undefined) return { origin: () => ({ kind: "new" }) };
    const resolved = await resolveReference(namespace, text, dependencies);
    if ("waiting" in resolved) return { origin: () => ({ kind: "waiting", message: resolved.waiting }) };
    const { checkpointId: id, isNamed } = resolved;
    const checkpoint = await findCheckpoint(namespace, id, dependencies);
    if (checkpoint !== undefined) {
      return { checkpoint, origin: (template) => named(originFrom(checkpoint, template), isNamed) };
    }
    const namesake = dependencies.cache.checkpoint(`${namespace}/${id}`);
    return { origin: () => unknownCheckpoint(namespace, id, namesake) };
  } catch (thrown) {
    const error = RametError.from(thrown);
    if (error.code !== "InvalidArgument" && error.code !== "NotFound") throw error;
    return { origin: () => ({ kind: "impossible", error }) };
  }
}

function named(origin: Origin, isNamed: boolean): Origin {
  return origin.kind === "checkpoint" ? { ...origin, isNamed } : origin;
}

/** A checkpoint of the same namespace: the namespace is the wall, so no other is ever looked at. */
async function findCheckpoint(
  namespace: string,
  id: string,
  { cache, informers }: Known,
): Promise<Checkpoint | undefined> {
  const cached = cache.checkpointById(namespace, id);
  if (cached?.status?.phase === "Succeeded") return cached;
  // Whoever asks for the clone may have seen what this cache has not: ask before a refusal.
  const { items } = await informers.checkpoints.resource.list({ namespace });
  return items.find(({ status }) => status?.checkpointId === id);
}
