import { setRevision } from "../../api/set/set-revision.ts";
import { setSandbox } from "../../api/set/set-sandbox.ts";
import { labels } from "../../api/names/labels.ts";
import type { SandboxClaim } from "../../api/kinds/sandbox-claim.ts";
import type { Claimed, ClaimParts } from "../../claim/claim-sandbox.ts";
import { FairTurns } from "../../claim/fair-turns.ts";
import { claimMetrics } from "../../claim/metrics.ts";
import { Stock } from "../../claim/stock.ts";
import { keyOf } from "../../kube/object.ts";
import { StatusWriter } from "../../kube/status-writer.ts";
import { Attempts } from "../common/attempts.ts";
import { Wishes, type Controller } from "../common/controller-parts.ts";
import { resolveOrigin } from "../common/set-origin.ts";
import { SlowStart } from "../common/slow-start.ts";
import { claimWatches, forgetClaim, reconcileClaim } from "./controller.ts";
import type { ClaimControllerParts, ClaimDependencies } from "./dependencies.ts";

/** Half of the client's connections: the controllers that fill the sets up again need the others. */
const writesAtOnce = 16;

/** Serves SandboxClaims. */
export function sandboxClaimController(parts: ClaimControllerParts): Controller {
  const { informers, clock, random, metrics } = parts;
  const wishes = new Wishes();
  const counted = metrics && claimMetrics(metrics.registry);
  const claimParts: ClaimParts = {
    ...claimPartsOf(parts),
    ...(counted && { metrics: counted }),
  };
  const dependencies: ClaimDependencies = {
    ...parts,
    claimParts,
    statuses: new StatusWriter<SandboxClaim>(informers.claims.resource),
    attempts: new Attempts<Claimed>({ clock, random }),
    pursuits: new Map(),
    awaited: new Map(),
    slowStart: new SlowStart(clock),
    sandboxesOfClaim: informers.sandboxes.store.index(({ metadata }) => {
      const name = metadata.labels?.[labels.claimName];
      return name === undefined ? [] : [keyOf({ namespace: metadata.namespace, name })];
    }),
    enqueue: wishes.enqueue,
  };
  const stop = informers.claims.store.subscribe(({ type, object }) => {
    if (type === "deleted") forgetClaim(object, dependencies);
  });
  return {
    name: "sandboxclaim",
    watches: claimWatches(dependencies),
    reconcile: (key) => reconcileClaim(key, dependencies),
    wishes,
    close: () => {
      stop();
      for (const { abort } of dependencies.pursuits.values()) abort.abort();
      dependencies.attempts.close();
      claimParts.stock.close();
      counted?.close();
    },
  };
}

function claimPartsOf({ informers, cache, sandboxWrites, clock, random }: ClaimControllerParts): ClaimParts {
  return {
    sandboxes: informers.sandboxes.resource,
    stock: new Stock({
      store: informers.sandboxes.store,
      latest: (cached) => sandboxWrites.latest(cached),
      revisionOf: (setKey) => cache.set(setKey)?.status?.updateRevision,
      random,
    }),
    turns: new FairTurns(writesAtOnce),
    model: async (at) => {
      const set = cache.set(keyOf(at)) ?? (await informers.sets.resource.find(at));
      if (set === undefined) return undefined;
      const { templateRef } = set.spec;
      const named = templateRef && cache.template(keyOf({ namespace: at.namespace, name: templateRef.name }));
      return setSandbox(
        set,
        setRevision(set, named, (origin) => resolveOrigin(at.namespace, origin, cache)),
        random,
      );
    },
    remember: (base, write) => sandboxWrites.write(base, write),
    clock,
  };
}
