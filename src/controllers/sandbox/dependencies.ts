import type { Sandbox } from "../../api/kinds/sandbox.ts";
import type { StatusWriter } from "../../kube/status-writer.ts";
import type { CellParts, ClusterParts, DataParts, ProcessParts } from "../cluster/controller-parts.ts";
import type { ImageLookups } from "../images/image-lookups.ts";
import type { CellCalls } from "./cell-calls.ts";
import type { CredentialValues } from "./credential-values.ts";
import type { Attempts } from "../cluster/attempts.ts";
import type { FormerPods } from "./former-pods.ts";
import type { Disruption } from "./metrics.ts";
import type { NodeTurns } from "./node-turns.ts";
import type { Namespaces } from "./namespaces.ts";
import type { NewPods } from "./new-pods.ts";

/** The records of this process about its own writes and calls. */
interface SandboxRecords {
  statuses: StatusWriter<Sandbox>;
  calls: CellCalls;
  newPods: NewPods;
  formerPods: FormerPods;
  /** Absent: the node has the images. */
  imageLookups: ImageLookups | undefined;
  namespaces: Namespaces;
  /** Of the latest captures, in bytes a second. */
  storeSpeed: () => number | undefined;
  /** Counts a disruption that has ended. */
  disrupted: (disruption: Disruption) => void;
  /** The calls to cells that may still run without a Pod, by the UIDs of the Pods. */
  unseen: Attempts<undefined>;
  turns: NodeTurns;
  credentialValues: CredentialValues;
  /** Requeues a key after a change that no informer reports. */
  enqueue: (key: string) => void;
}

export interface SandboxDependencies
  extends
    ClusterParts,
    CellParts,
    Pick<DataParts, "backends" | "dataFindings">,
    Pick<ProcessParts, "clock" | "log">,
    SandboxRecords {}
