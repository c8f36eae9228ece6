import { join } from "node:path";
import { RametError } from "../../base/errors.ts";
import { buildOnce, type BuildOptions, type ImageBuild } from "./build-once.ts";
import { makeDebianTar } from "./debian-tar.ts";
import type { Image } from "./image-store.ts";

/** The name of the demo's image. */
export const pythonImageName = "python";

/**
 * Returns the image `python`, a small Debian with Python 3. Builds it on first use with `mmdebstrap`, from the package
 * archive that this machine's apt uses (about a minute).
 *
 * @throws RametError `ImageNotFound` with instructions if it cannot be built
 */
export async function ensurePythonImage(options: BuildOptions = {}): Promise<Image> {
  const build = { name: pythonImageName, directory: "debian" };
  return buildOnce(build, options, async (store) => store.find(pythonImageName), make);
}

async function make({ store, work, scratch, line, signal }: ImageBuild): Promise<Image> {
  const tar = join(scratch, "python.tar");
  await makeDebianTar({ path: tar, work, line, signal }).catch((cause: unknown) => {
    signal?.throwIfAborted();
    throw new RametError("ImageNotFound", `Building the image python failed: ${RametError.from(cause).message}`, {
      hint:
        "Install mmdebstrap and configure apt with a Debian archive, or add any root filesystem with python3: " +
        "ramet local image add python PATH (a root directory, a tar or an OCI layout)",
      cause,
    });
  });
  const env = ["PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "LANG=C.UTF-8"];
  return store.add(pythonImageName, tar, { config: { cmd: ["python3"], env }, signal });
}
