import { execFile } from "node:child_process";
import { join } from "node:path";
import { promisify } from "node:util";
import * as z from "zod";
import { openImageStore } from "../../../src/local/images/image-store.ts";
import { ensurePythonImage } from "../../../src/local/images/python-image.ts";
import { cacheDirectory } from "../../../src/local/tools/tool.ts";
import { builtPrograms } from "../../setup/built-package.ts";
import { ClientWorld } from "../client-world.ts";

export interface SdkWorld {
  /** The variables of `ramet local env`. */
  environment: Record<string, string>;
  close: () => Promise<void>;
}

const run = promisify(execFile);

/**
 * A local cluster with a stock for its template `base`, which is the image `python`. The same image is a stand-in for the Ubuntu of
 * the build tests.
 */
export async function openSdkWorld(through: readonly string[]): Promise<SdkWorld> {
  const world = await ClientWorld.open({ ownImages: true });
  try {
    const { cluster } = world;
    await addImages(cluster.environment, ["python", "ubuntu:22.04"]);
    const [program, main] = builtPrograms.ramet;
    const command = [...through, program, main, "local", "env", "--name", "test", "-o", "json", "--mode", "domain"];
    const { stdout } = await run(command[0] ?? "", command.slice(1), { env: cluster.environment });
    await world.createSet("base", 3, { template: undefined, templateRef: { name: "ramet-python" } });
    return {
      environment: z.record(z.string(), z.string()).parse(JSON.parse(stdout)),
      close: () => world.close(),
    };
  } catch (error) {
    await world.close();
    throw error;
  }
}

async function addImages(environment: NodeJS.ProcessEnv, names: readonly string[]): Promise<void> {
  const { rootPath, config } = await ensurePythonImage({ progress: console.error });
  const store = openImageStore({ dir: join(cacheDirectory(environment), "images") });
  for (const name of names) await store.add(name, rootPath, { config });
}
