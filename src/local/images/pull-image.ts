import { mkdtemp, rm } from "node:fs/promises";
import { join } from "node:path";
import { defined } from "../../base/defined.ts";
import { RametError } from "../../base/errors.ts";
import { isExecutable } from "../tools/find-installed.ts";
import { runProgram } from "../tools/run-program.ts";
import { imageNotFound, type ImageStore, type Image } from "./image-store.ts";

export interface PullOptions {
  /** Directory for the download. */
  scratch: string;
  environment?: NodeJS.ProcessEnv;
  progress?: (line: string) => void;
  signal?: AbortSignal;
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
  if (!(await isOnPath("skopeo", options.environment ?? process.env)))
    throw pullFailed(name, "skopeo is not installed");
  const directory = await mkdtemp(join(options.scratch, "pull-"));
  try {
    progress?.(`Image ${name}: pulling with skopeo`);
    await runProgram("skopeo", ["copy", "--quiet", `docker://${name}`, `oci:${join(directory, "layout")}:latest`], {
      what: `Pulling ${name}`,
      ...defined({ signal }),
    }).catch((error: unknown) => {
      signal?.throwIfAborted();
      throw pullFailed(name, RametError.from(error).message, error);
    });
    return await store.add(name, join(directory, "layout"), defined({ signal }));
  } finally {
    await rm(directory, { recursive: true, force: true });
  }
}

function pullFailed(name: string, why: string, cause?: unknown): RametError {
  const { code, message, hint } = imageNotFound(name);
  return new RametError(code, `${message}, and pulling it failed: ${why}`, {
    ...(hint === undefined ? {} : { hint }),
    ...(cause === undefined ? {} : { cause }),
  });
}

async function isOnPath(program: string, environment: NodeJS.ProcessEnv): Promise<boolean> {
  const directories = (environment["PATH"] ?? "").split(":").filter((directory) => directory !== "");
  const found = await Promise.all(directories.map((directory) => isExecutable(join(directory, program))));
  return found.includes(true);
}
