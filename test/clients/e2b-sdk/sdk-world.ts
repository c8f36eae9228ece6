import { execFile } from "node:child_process";
import { join } from "node:path";
import { promisify } from "node:util";
import * as z from "zod";
import { openImageStore } from "../../../src/local/images/image-store.ts";
import { ensureInterpreterImage } from "../../../src/local/images/interpreter-image.ts";
import { ensurePythonImage } from "../../../src/local/images/python-image.ts";
import { cacheDirectory } from "../../../src/local/tools/tool.ts";
import { builtPrograms } from "../../setup/built-package.ts";
import { ClientWorld } from "../client-world.ts";
import type { Checkout } from "./checkout.ts";

export interface SdkWorld {
  /** The variables of `ramet local env`. */
  environment: Record<string, string>;
  close: () => Promise<void>;
}

const run = promisify(execFile);

/**
 * A local cluster with a stock for the template that the tests use. `base` is the image `python`, which is also a stand-in for the
 * Ubuntu of the build tests.
 */
export async function openSdkWorld(through: readonly string[], kind: Checkout["kind"]): Promise<SdkWorld> {
  const world = await ClientWorld.open({ ownImages: true });
  try {
    const { cluster } = world;
    await addImages(cluster.environment, kind);
    const [program, main] = builtPrograms.ramet;
    const command = [...through, program, main, "local", "env", "--name", "test", "-o", "json", "--mode", "domain"];
    const { stdout } = await run(command[0] ?? "", command.slice(1), { env: cluster.environment });
    const [name, template] = kind === "e2b" ? ["base", "python"] : ["code-interpreter-v1", "code-interpreter"];
    await world.createSet(name, 3, { template: undefined, templateRef: { name: `ramet-${template}` } });
    return {
      environment: z.record(z.string(), z.string()).parse(JSON.parse(stdout)),
      close: () => world.close(),
    };
  } catch (error) {
    await world.close();
    throw error;
  }
}

async function addImages(environment: NodeJS.ProcessEnv, kind: Checkout["kind"]): Promise<void> {
  const options = { progress: console.error };
  const { rootPath, config } = await (kind === "e2b"
    ? ensurePythonImage(options)
    : ensureInterpreterImage(options, "code-interpreter-all"));
  const store = openImageStore({ dir: join(cacheDirectory(environment), "images") });
  const names = kind === "e2b" ? ["python", "ubuntu:22.04"] : ["code-interpreter"];
  for (const name of names) await store.add(name, rootPath, { config });
}
