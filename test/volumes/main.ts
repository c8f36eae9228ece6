// `npm run test:volumes`: tests volumes in a cluster that exists, by its kubeconfig; without one, in local clusters.
import { randomBytes } from "node:crypto";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";
import { coreResources } from "../../src/kube/resource-ref.ts";
import { clientOf } from "./client.ts";
import { removeNamespace } from "./remains.ts";
import { settingOf, unconfigured, type VolumesSetting } from "./setting.ts";

const setting = settingOf(process.env, `ramet-volumes-${randomBytes(3).toString("hex")}`);
if (setting === undefined) {
  console.error(unconfigured);
  process.exitCode = await vitest(["volume", "csi", "hold"]);
} else {
  process.exitCode = await run(setting);
}

async function run(given: VolumesSetting): Promise<number> {
  const config = join(import.meta.dirname, "vitest.config.ts");
  const env = { ...process.env, RAMET_TEST_VOLUMES: JSON.stringify(given) };
  // The terminal interrupts the tests too. This process then cleans up.
  for (const signal of ["SIGINT", "SIGTERM"] as const) process.on(signal, () => undefined);
  const status = await vitest(["--config", config], env);
  return (await cleanUp(given)) ? status : 1;
}

/** @returns its exit status */
async function vitest(args: readonly string[], env = process.env): Promise<number> {
  const child = spawn("vitest", ["run", ...args, ...process.argv.slice(2)], { stdio: "inherit", env });
  const [status] = (await once(child, "close")) as [number | null];
  return status ?? 130;
}

/** Removes what interrupted tests have left. @returns whether nothing remains */
async function cleanUp(given: VolumesSetting): Promise<boolean> {
  const { namespace } = given;
  const client = await clientOf(given);
  try {
    const found = await client.resource(coreResources.namespaces).find({ name: namespace });
    if (found === undefined || found.metadata.deletionTimestamp !== undefined) return true;
    console.error(`Removing the namespace ${namespace}, which an interrupted run has left`);
    const left = await removeNamespace({ ...given, client });
    for (const one of left) console.error(`Not removed: ${one}`);
    return left.length === 0;
  } finally {
    await client.close();
  }
}
