import type { ImageConfig } from "../../cell/setting/cell-setting.ts";

/** An image that the machine has, as a folder. */
export interface NodeImage {
  rootPath: string;
  config: Omit<ImageConfig, "digest">;
  digest: string;
  /** Keeps it on the machine as long as that folder exists. @throws RametError `ImageNotFound` if it has just gone */
  hold?(folder: string): Promise<void>;
}

/** Where the node gets its Pods' images from. */
export interface ImageSource {
  /**
   * The image, pulled first if it is not there and `pull` allows it.
   * @throws RametError `ImageNotFound`
   */
  image(reference: string, pull: "Always" | "IfNotPresent" | "Never"): Promise<NodeImage>;
  /** Called when a Pod that had one is gone: one that was replaced meanwhile need not be kept for it. */
  released?(): void;
}
