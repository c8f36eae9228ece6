import { mkdir } from "node:fs/promises";
import { RametError } from "../../base/errors.ts";
import type { Clock } from "../../base/clock.ts";
import { imageUser } from "../images/image-user.ts";
import { openImageStore } from "../images/image-store.ts";
import { getOrPullImage } from "../images/pull-image.ts";
import { imagesFolder } from "../images/python-image.ts";
import type { ImageSource } from "./images.ts";

const sweepMilliseconds = 2_000;

/**
 * The images that are unpacked on this machine, and those that it can pull. What is there is taken as it is, also for
 * `Always`: a machine without a network must be able to run what it has; `ramet local image add` puts a newer one in place.
 */
export function machineImages(progress: (line: string) => void, clock: Clock): ImageSource {
  const dir = imagesFolder();
  const store = openImageStore({ dir, progress });
  let sweepIn: (() => void) | undefined;
  return {
    image: async (reference, pull) => {
      const image =
        (await store.find(reference)) ?? (pull === "Never" ? await store.get(reference) : await pulled(reference));
      const { rootPath, config, digest } = image;
      const { entrypoint, cmd, env } = config;
      const user = await imageUser({ name: reference, rootPath, user: config.user });
      // "/" is what an image has that names none; clients' commands then start in their user's home.
      const workingDir = config.workingDir === "/" ? "" : config.workingDir;
      const hold = (folder: string): Promise<void> => store.hold(image, folder);
      return { rootPath, digest, hold, config: { entrypoint, cmd, env, workingDir, ...(user && { user }) } };
    },
    released: () => {
      // Pods often go together; the sweep of all of them is one.
      sweepIn ??= clock.schedule(sweepMilliseconds, () => {
        sweepIn = undefined;
        store.sweep().catch((error: unknown) => {
          progress(`Sweeping images failed: ${RametError.from(error).message}`);
        });
      });
    },
  };

  async function pulled(reference: string) {
    await mkdir(dir, { recursive: true });
    return getOrPullImage(store, reference, { scratch: dir, progress });
  }
}
