import type { Sandbox } from "../../api/kinds/sandbox.ts";
import type { StatusWriter } from "../../kube/status-writer.ts";
import type { CellParts, ClusterParts, DataParts, ProcessParts } from "../cluster/controller-parts.ts";
import type { ImageLookups } from "../images/image-lookups.ts";
import type { CellCalls } from "./cell-calls.ts";
import type { CredentialValues } from "./credential-values.ts";
import type { Namespaces } from "./namespaces.ts";
import type { NewPods } from "./new-pods.ts";

/** The records of this process about its own writes and calls. */
interface SandboxRecords {
  statuses: StatusWriter<Sandbox>;
  calls: CellCalls;
  newPods: NewPods;
  /** Absent: the node has the images. */
  imageLookups: ImageLookups | undefined;
  namespaces: Namespaces;
  /** Counts a disruption that has ended. */
  disrupted: (cause: string, outcome: string) => void;
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
