import { join } from "node:path";
import { parseInstallOptions } from "../../install/install-options.ts";
import { allManifests, storeIsNotMounted } from "../../install/manifests.ts";
import { exitCodes } from "../exit-codes.ts";
import { printLine, writeAll, type Io } from "../io.ts";
import { manifestFiles, renderManifests } from "./render-manifests.ts";
import { writeFiles } from "./write-files.ts";

export interface ManifestsOptions {
  image: string;
  cellImage: string;
  namespace: string;
  replicas: number;
  storeDirectory: string;
  storeClaim: string;
  out?: string;
}

/** `ramet manifests`: what installs the controllers, to stdout or into a folder. Asks no cluster. */
export async function printManifests(io: Io, options: ManifestsOptions): Promise<number> {
  const { out, storeDirectory: directory, storeClaim: claim, ...given } = options;
  const wanted = parseInstallOptions({ ...given, store: { directory, claim } }, flagNames);
  const manifests = allManifests(wanted);
  if (out === undefined) await writeAll(io.stdout, `${mark}.\n${renderManifests(manifests)}`);
  else {
    const files = manifestFiles(manifests).map(({ name, text }) => ({ name, text: `${mark}. ${advice}\n${text}` }));
    await writeFiles(out, files, mark);
    printLine(io.stdout, join(out, "kustomization.yaml"));
  }
  printLine(io.stderr, `The PersistentVolumeClaim ${claim} in the namespace ${wanted.namespace} is yours to make.`);
  printLine(io.stderr, `${storeIsNotMounted}.`);
  return exitCodes.ok;
}

const mark = "# Made by ramet manifests";
const advice = "It is written anew with each version: change it by patches of a kustomization that names this folder.";

const flagNames = {
  namespace: "--namespace",
  image: "--image",
  cellImage: "--cell-image",
  replicas: "--replicas",
  "store.directory": "--store-directory",
  "store.claim": "--store-claim",
};
