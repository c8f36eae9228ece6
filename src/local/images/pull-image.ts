import { mkdtemp, rm } from "node:fs/promises";
import { join } from "node:path";
import { defined } from "../../base/defined.ts";
import { RametError } from "../../base/errors.ts";
import { findOnPath } from "../tools/find-installed.ts";
import { runProgram } from "../tools/run-program.ts";
import { imageNotFound, type ImageStore, type Image } from "./image-store.ts";

export interface PullOptions {
  /** Directory for the download. */
  scratch: string;
  progress?: ((line: string) => void) | undefined;
  signal?: AbortSignal | undefined;
}

/**
 * Returns the image of that name from the store, or pulls it with `skopeo` if that is installed. (`umoci` is not needed: the
 * store unpacks OCI layouts.)
 *
 * @throws RametError `ImageNotFound` with the reason why it cannot be pulled
 */
export async function getOrPullImage(store: ImageStore, name: string, options: PullOptions): Promise<Image> {
  const known = await store.find(name);
  if (known !== undefined) return known;
  const { progress, signal } = options;
  const { code, message, hint } = imageNotFound(name);
  const failed = (why: string, cause?: unknown) =>
    new RametError(code, `${message}, and pulling it failed: ${why}`, defined({ hint, cause }));
  if ((await findOnPath("skopeo", process.env)) === undefined) throw failed("skopeo is not installed");
  const directory = await mkdtemp(join(options.scratch, "pull-"));
  try {
    progress?.(`Image ${name}: pulling with skopeo`);
    await runProgram("skopeo", ["copy", "--quiet", `docker://${name}`, `oci:${join(directory, "layout")}:latest`], {
      what: `Pulling ${name}`,
      signal,
    }).catch((error: unknown) => {
      signal?.throwIfAborted();
      throw failed(RametError.from(error).message, error);
    });
    return await store.add(name, join(directory, "layout"), { signal });
  } finally {
    await rm(directory, { recursive: true, force: true });
  }
}
