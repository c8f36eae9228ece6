import { execFile } from "node:child_process";
import { mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import * as z from "zod";
import packageJson from "../../package.json" with { type: "json" };
import { packPackage } from "../program/installed-package.ts";

const run = promisify(execFile);

export interface PackageCosts {
  /** The sizes of the tarball, and of its content. */
  packedBytes: number;
  unpackedBytes: number;
  files: number;
  installs: InstallCosts[];
}

export interface InstallCosts {
  what: string;
  packages: number;
  /** With an empty cache, which includes downloads, and then with the filled cache. */
  firstSeconds: number;
  againSeconds: number;
}

/** Packs the built package and installs it with npm, with and without the other dependencies of a Pulumi program. */
export async function measurePackage(signal: AbortSignal): Promise<PackageCosts> {
  const directory = await mkdtemp(join(tmpdir(), "ramet-package-"));
  try {
    const tarball = await packPackage(directory);
    const { stdout } = await run("npm", ["pack", tarball, "--dry-run", "--json"], { cwd: directory, signal });
    const [packed] = Packed.parse(JSON.parse(stdout));
    const { devDependencies } = packageJson;
    const pulumi = {
      "@pulumi/pulumi": devDependencies["@pulumi/pulumi"],
      "@pulumi/kubernetes": devDependencies["@pulumi/kubernetes"],
    };
    const alone = { ramet: `file:${tarball}` };
    const cache = join(directory, "cache");
    return {
      packedBytes: packed.size,
      unpackedBytes: packed.unpackedSize,
      files: packed.entryCount,
      installs: [
        await measureInstall("ramet", alone, { directory, cache: `${cache}-alone`, signal }),
        await measureInstall("ramet and Pulumi's packages", { ...alone, ...pulumi }, { directory, cache, signal }),
      ],
    };
  } finally {
    await rm(directory, { recursive: true, force: true });
  }
}

async function measureInstall(
  what: string,
  dependencies: Record<string, string>,
  { directory, cache, signal }: { directory: string; cache: string; signal: AbortSignal },
): Promise<InstallCosts> {
  const install = async (name: string): Promise<{ seconds: number; packages: number }> => {
    const project = join(directory, `${what.replaceAll(/\W+/g, "-")}-${name}`);
    await mkdir(project);
    await writeFile(join(project, "package.json"), JSON.stringify({ private: true, dependencies }));
    // Sets the log level, because npm prints nothing at the inherited level of `npm run --silent`.
    const output = ["--json", "--loglevel", "error"];
    const flags = ["--cache", cache, "--prefer-offline", "--no-audit", "--no-fund", "--ignore-scripts", ...output];
    const start = performance.now();
    const { stdout } = await run("npm", ["install", ...flags], { cwd: project, signal, maxBuffer: 64 * 2 ** 20 });
    const seconds = (performance.now() - start) / 1000;
    return { seconds, packages: Installed.parse(JSON.parse(stdout)).added };
  };
  const first = await install("first");
  const again = await install("again");
  return { what, packages: first.packages, firstSeconds: first.seconds, againSeconds: again.seconds };
}

const Packed = z.tuple([z.looseObject({ size: z.number(), unpackedSize: z.number(), entryCount: z.number() })]);
const Installed = z.looseObject({ added: z.number() });
