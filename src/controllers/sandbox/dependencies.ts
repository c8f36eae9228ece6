import type { CellPodOptions } from "../../api/cell-pod.ts";
import type { CellBackend } from "../../backends/cell.ts";
import type { CellCredentials } from "../../backends/cell-credentials.ts";
import type { Clock } from "../../kube/clock.ts";
import type { KubeClient } from "../../kube/kube-client.ts";
import type { EventRecorder } from "../../kube/events.ts";
import type { StatusWriter } from "../../kube/status-writer.ts";
import type { Sandbox } from "../../api/sandbox.ts";
import type { OwnWrites } from "../../kube/own-writes.ts";
import type { Attempts } from "../attempts.ts";
import type { Cache } from "../cache.ts";
import type { Informers } from "../resources.ts";
import type { SlowStart } from "../slow-start.ts";
import type { NewPods } from "./new-pods.ts";
import type { StartOutcome } from "./state.ts";

export interface SandboxDependencies {
  client: KubeClient;
  informers: Informers;
  cache: Cache;
  backend: CellBackend;
  credentials: CellCredentials;
  /** Of every Pod that is made. */
  podOptions: Omit<CellPodOptions, "start" | "publicKey">;
  statuses: StatusWriter<Sandbox>;
  ownWrites: OwnWrites<Sandbox>;
  starts: Attempts<StartOutcome>;
  newPods: NewPods;
  slowStart: SlowStart;
  events: EventRecorder;
  clock: Clock;
  /** Has a key reconciled; for what no informer tells. */
  enqueue: (key: string) => void;
}
