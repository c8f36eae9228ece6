import type { Checkpoint } from "../../api/kinds/checkpoint.ts";
import type { Backends } from "../../backends/backends.ts";
import type { CheckpointRecord } from "../../backends/checkpoint-record.ts";
import type { SandboxRuntime } from "../../backends/runtime.ts";
import type { Clock } from "../../base/clock.ts";
import type { EventRecorder } from "../../kube/events.ts";
import type { Log } from "../../base/log.ts";
import type { StatusWriter } from "../../kube/status-writer.ts";
import type { OwnWrites } from "../../kube/own-writes.ts";
import type { Attempts } from "../common/attempts.ts";
import type { Cache } from "../common/cache.ts";
import type { Informers } from "../common/resources.ts";

export interface CheckpointDependencies {
  informers: Informers;
  cache: Cache;
  backends: Backends;
  runtime: SandboxRuntime;
  statuses: StatusWriter<Checkpoint>;
  ownWrites: OwnWrites<Checkpoint>;
  /** By the UID of a Checkpoint: the call that takes it. */
  captures: Attempts<CheckpointRecord>;
  /** By the UID of a Pod: the UID of the Checkpoint that this process is taking of it. */
  capturing: Map<string, string>;
  events: EventRecorder;
  clock: Clock;
  log: Log;
  /** Requeues a key after a change that no informer reports. */
  enqueue: (key: string) => void;
}
