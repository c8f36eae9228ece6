import type { Clock } from "../../base/clock.ts";
import type { CellImages } from "./engine-bundles.ts";
import type { Claims } from "./claims.ts";
import type { ImageSource, PodObjects } from "./pod.ts";
import type { MachineView } from "./pod-view.ts";
import type { SparePods } from "./spare-pods.ts";

/** The dependencies with which a node starts the containers of Pods. */
export interface PodStarterOptions {
  /** The directory of all Pods' directories. */
  pods: string;
  images: ImageSource;
  objects: PodObjects;
  claims: Pick<Claims, "directoryOf">;
  nodeName: string;
  /** The node's address. */
  hostIP: string;
  cells: CellImages;
  /** Environment variables of every cell, such as PATH. */
  environment: Record<string, string>;
  view: MachineView;
  spares: SparePods;
  clock: Clock;
}
