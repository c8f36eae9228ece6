import { copyFile } from "node:fs/promises";
import { join } from "node:path";
import packageJson from "../../../package.json" with { type: "json" };
import { TestCluster } from "../../cluster/local-cluster.ts";
import { setup as build } from "../../setup/built-package.ts";
import { openProgram } from "../program-world.ts";
import { upgradeOptions } from "../upgrade-options.ts";

/**
 * Records the state that this version of the package leaves, for the upgrade tests of later versions. Run once for each released
 * version: `node test/program/states/keep.ts`.
 */
build();
const cluster = await TestCluster.create();
try {
  await cluster.up();
  const world = await openProgram("test/program/programs/upgrade", {
    kubeconfig: cluster.directory.kubeconfig,
    ...upgradeOptions,
  });
  const { succeeded, text } = await world.engine.up();
  if (!succeeded) throw new Error(text);
  await copyFile(world.engine.statePath, join(import.meta.dirname, `${packageJson.version}.json`));
  await world.remove();
} finally {
  await cluster.remove();
}
