import { mkdir, rm } from "node:fs/promises";
import { join } from "node:path";
import { BareSandbox, openBareRunsc } from "./bare-runsc.ts";
import type { LevelContext } from "./figure.ts";
import type { ForkSide } from "./fork.ts";
import { firstAnswer } from "./workload.ts";

/** The baseline of a fork: the same number of concurrent `runsc restore` of one image. */
export async function openBareForks({ rootPath, cleanUp }: LevelContext): Promise<ForkSide> {
  const bare = await openBareRunsc(rootPath, cleanUp);
  let made = 0;
  const prepare = async (): Promise<BareSandbox> => {
    const sandbox = await BareSandbox.prepare(bare, ++made, 0);
    cleanUp.add(() => sandbox.remove());
    return sandbox;
  };
  const image = join(bare.directory, "image");
  await mkdir(image);
  const origin = await prepare();
  await origin.createAndStart();
  await firstAnswer(origin.ip);
  await origin.checkpoint(image);
  await origin.remove();
  return {
    round: async (_, count) => {
      const sandboxes: BareSandbox[] = [];
      while (sandboxes.length < count) sandboxes.push(await prepare());
      return {
        starts: sandboxes.map((sandbox) => async () => {
          await sandbox.restore(image);
          return firstAnswer(sandbox.ip);
        }),
        memory: async () => {
          const all = [];
          for (const sandbox of sandboxes) all.push([await sandbox.memory()]);
          return all;
        },
        remove: async () => {
          await Promise.all(sandboxes.map((sandbox) => sandbox.remove()));
        },
      };
    },
    close: () => rm(image, { recursive: true }),
  };
}
