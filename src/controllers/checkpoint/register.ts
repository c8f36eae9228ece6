import type { Checkpoint } from "../../api/kinds/checkpoint.ts";
import type { CheckpointRecord } from "../../backends/backend.ts";
import { OwnWrites } from "../../kube/own-writes.ts";
import { StatusWriter } from "../../kube/status-writer.ts";
import { Attempts } from "../common/attempts.ts";
import { Wishes, type Controller, type ControllerParts } from "../common/controller-parts.ts";
import { checkpointWatches, reconcileCheckpoint } from "./controller.ts";
import type { CheckpointDependencies } from "./dependencies.ts";

/** A checkpoint whose cell cannot be reached for that long has failed. */
const unreachableMilliseconds = 30_000;

/** Takes Checkpoints. */
export function checkpointController(parts: ControllerParts): Controller {
  const { informers, clock, random } = parts;
  const wishes = new Wishes();
  const dependencies: CheckpointDependencies = {
    ...parts,
    statuses: new StatusWriter<Checkpoint>(informers.checkpoints.resource),
    ownWrites: new OwnWrites(informers.checkpoints),
    cuts: new Attempts<CheckpointRecord>({ clock, random, giveUpAfterMilliseconds: unreachableMilliseconds }),
    taking: new Map(),
    enqueue: wishes.enqueue,
  };
  return {
    name: "checkpoint",
    watches: checkpointWatches(dependencies),
    reconcile: (key) => reconcileCheckpoint(key, dependencies),
    wishes,
    close: () => {
      dependencies.cuts.close();
    },
  };
}
