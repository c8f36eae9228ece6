import { readFile, writeFile } from "node:fs/promises";
import { RametError } from "../base/errors.ts";

const directory = "/sys/kernel/mm/transparent_hugepage";

/** Fastest for gVisor's memory files: huge pages where gVisor requests them, allocated in the background. */
const tunedSettings = { shmem_enabled: "advise", defrag: "defer" } as const;
type Setting = keyof typeof tunedSettings;

/**
 * The machine's settings of huge pages for shared memory, which holds a sandbox's memory. On a machine with 2 cores a clone of
 * 1 GiB is ready after 0.3 s with huge pages and 0.7 s without.
 */
export interface HugePages {
  shmem_enabled: string;
  defrag: string;
  /** Whether the settings are the fastest for clones of large sandboxes. */
  tuned: boolean;
}

/** Undefined if the kernel has no transparent huge pages. */
export async function readHugePages(): Promise<HugePages | undefined> {
  try {
    const [shmem, defrag] = await Promise.all([chosen("shmem_enabled"), chosen("defrag")]);
    const tuned =
      ["advise", "within_size", "always", "force"].includes(shmem) && !["always", "madvise"].includes(defrag);
    return { shmem_enabled: shmem, defrag, tuned };
  } catch {
    return undefined;
  }
}

/** One sentence: the current settings, and the gain of changing them. */
export function describeHugePages(pages: HugePages | undefined): string {
  if (pages === undefined) return "this kernel has no transparent huge pages";
  const present = `shmem_enabled=${pages.shmem_enabled} defrag=${pages.defrag}`;
  if (pages.tuned) return `${present}: clones of large sandboxes are fast`;
  return (
    `${present}: with shmem_enabled=advise and defrag=defer a clone of 1 GiB of memory is ready after about ` +
    `0.3 s instead of 0.7 s (for the whole machine, until it restarts: ${howToTune()})`
  );
}

function howToTune(): string {
  return process.getuid?.() === 0 ? "ramet local up --tune" : `as root, ${asRoot}`;
}

const asRoot = `echo advise > ${directory}/shmem_enabled; echo defer > ${directory}/defrag`;

/** Changes both settings for the whole machine, until it restarts. @throws RametError `HostUnsupported`, `Forbidden` */
export async function tuneHugePages(): Promise<void> {
  if ((await readHugePages()) === undefined)
    throw new RametError("HostUnsupported", "Setting huge pages failed: this kernel has no transparent huge pages");
  try {
    for (const [name, value] of Object.entries(tunedSettings)) await writeFile(`${directory}/${name}`, value);
  } catch (cause) {
    throw new RametError("Forbidden", "Setting huge pages failed: only root can change them", {
      hint: `Run as root: ${asRoot}`,
      cause,
    });
  }
}

/** The file lists all values, with the current one in brackets. */
async function chosen(name: Setting): Promise<string> {
  const text = await readFile(`${directory}/${name}`, "utf8");
  const choice = /\[(\S+)\]/.exec(text)?.[1];
  if (choice === undefined)
    throw new RametError("HostUnsupported", `Reading ${directory}/${name} failed: unexpected content: ${text}`);
  return choice;
}
