import type { ImageConfig } from "../../cell/cell-setting.ts";

/** An image that the machine has, as a folder. */
export interface NodeImage {
  rootPath: string;
  config: Omit<ImageConfig, "digest">;
  digest: string;
}

/** Where the node gets its Pods' images from. */
export interface ImageSource {
  /**
   * The image, pulled first if it is not there and `pull` allows it.
   * @throws RametError `ImageNotFound`
   */
  image(reference: string, pull: "Always" | "IfNotPresent" | "Never"): Promise<NodeImage>;
}
