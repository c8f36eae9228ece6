import { join } from "node:path";
import { RametError } from "../../base/errors.ts";
import { buildOnce, type BuildOptions, type ImageBuild } from "./build-once.ts";
import { type DebianRecipe, debianRecipe, makeDebianTar, recipeFile } from "./debian-tar.ts";
import type { Image } from "./image-store.ts";
import { ImageConfig } from "./oci-layout.ts";

/** The name of the demo's image. */
export const pythonImageName = "python";

const config = ImageConfig.parse({
  cmd: ["python3"],
  env: ["PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "LANG=C.UTF-8"],
});

/**
 * Returns the image `python`: Debian with Python 3, and the programs and the user of E2B's template `base`. Builds it if it is missing
 * or its recipe has changed, with `mmdebstrap` from the package archive that this machine's apt uses (about two minutes).
 *
 * @throws RametError `ImageNotFound` with instructions if it cannot be built
 */
export async function ensurePythonImage(options: BuildOptions = {}): Promise<Image> {
  const recipe = await debianRecipe();
  const build = { name: pythonImageName, directory: "debian", recipeFile, recipe: recipe.digest };
  return buildOnce(build, options, async (parts) => make(recipe, parts));
}

async function make(recipe: DebianRecipe, { store, work, scratch, line, signal }: ImageBuild): Promise<Image> {
  const tar = join(scratch, "python.tar");
  await makeDebianTar({ path: tar, work, line, recipe, signal }).catch((cause: unknown) => {
    signal?.throwIfAborted();
    throw new RametError("ImageNotFound", `Building the image python failed: ${RametError.from(cause).message}`, {
      hint:
        "Install mmdebstrap and configure apt with a Debian archive, or add any root filesystem with python3: " +
        "ramet local image add python PATH (a root directory, a tar or an OCI layout)",
      cause,
    });
  });
  return store.add(pythonImageName, tar, { config, signal });
}
