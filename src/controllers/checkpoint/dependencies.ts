import type { Checkpoint } from "../../api/checkpoint.ts";
import type { CheckpointRecord } from "../../backends/backend.ts";
import type { CellBackend } from "../../backends/cell.ts";
import type { Clock } from "../../kube/clock.ts";
import type { EventRecorder } from "../../kube/events.ts";
import type { Log } from "../../kube/log.ts";
import type { StatusWriter } from "../../kube/status-writer.ts";
import type { OwnWrites } from "../../kube/own-writes.ts";
import type { Attempts } from "../attempts.ts";
import type { Cache } from "../cache.ts";
import type { Informers } from "../resources.ts";

export interface CheckpointDependencies {
  informers: Informers;
  cache: Cache;
  backend: CellBackend;
  statuses: StatusWriter<Checkpoint>;
  ownWrites: OwnWrites<Checkpoint>;
  cuts: Attempts<CheckpointRecord>;
  /** By the UID of a Pod: the UID of the Checkpoint that this process takes of it. */
  taking: Map<string, string>;
  events: EventRecorder;
  clock: Clock;
  log: Log;
  /** Has a key reconciled; for what no informer tells. */
  enqueue: (key: string) => void;
}
