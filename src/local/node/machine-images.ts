import { mkdir } from "node:fs/promises";
import { imageUser } from "../images/image-user.ts";
import { openImageStore } from "../images/image-store.ts";
import { getOrPullImage } from "../images/pull-image.ts";
import { imagesFolder } from "../images/python-image.ts";
import type { ImageSource } from "./images.ts";

/**
 * The images that are unpacked on this machine, and those that it can pull. What is there is taken as it is, also for
 * `Always`: a machine without a network must be able to run what it has; `ramet local image add` puts a newer one in place.
 */
export function machineImages(progress: (line: string) => void): ImageSource {
  const dir = imagesFolder();
  const store = openImageStore({ dir, progress });
  return {
    image: async (reference, pull) => {
      const { rootPath, config, digest } =
        (await store.find(reference)) ?? (pull === "Never" ? await store.get(reference) : await pulled(reference));
      const { entrypoint, cmd, env } = config;
      const user = await imageUser({ name: reference, rootPath, user: config.user });
      // "/" is what an image has that names none; clients' commands then start in their user's home.
      const workingDir = config.workingDir === "/" ? "" : config.workingDir;
      return { rootPath, digest, config: { entrypoint, cmd, env, workingDir, ...(user && { user }) } };
    },
  };

  async function pulled(reference: string) {
    await mkdir(dir, { recursive: true });
    return getOrPullImage(store, reference, { scratch: dir, progress });
  }
}
