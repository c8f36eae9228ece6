import { readFile, writeFile } from "node:fs/promises";
import { RametError } from "../base/errors.ts";

const directory = "/sys/kernel/mm/transparent_hugepage";

/** What gVisor's memory files do best with: huge pages where it asks for them, made in the background. */
const wanted = { shmem_enabled: "advise", defrag: "defer" } as const;
type Setting = keyof typeof wanted;

/** The machine's settings of huge pages for shared memory, in which gVisor keeps a sandbox's memory. */
export interface HugePages {
  shmem_enabled: string;
  defrag: string;
  /** Whether clones of large sandboxes are as fast as this machine can make them. */
  tuned: boolean;
}

/** Absent where the kernel has no transparent huge pages. */
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

/** One sentence for a person: how it is, and what changing it would bring (measured on a machine with 2 cores). */
export function describeHugePages(pages: HugePages | undefined): string {
  if (pages === undefined) return "this kernel has no transparent huge pages";
  const present = `shmem_enabled=${pages.shmem_enabled} defrag=${pages.defrag}`;
  if (pages.tuned) return `${present}: clones of large sandboxes are fast`;
  return (
    `${present}: with shmem_enabled=advise and defrag=defer a clone of 1 GiB of memory answers after about ` +
    `0.3 s in place of 0.7 s (for the whole machine, until it restarts: ${howToTune()})`
  );
}

function howToTune(): string {
  return process.getuid?.() === 0 ? "ramet local up --tune" : `as root, ${asRoot}`;
}

const asRoot = `echo advise > ${directory}/shmem_enabled; echo defer > ${directory}/defrag`;

/** Sets both for the whole machine, until it restarts. @throws RametError `HostUnsupported`, `Forbidden` */
export async function tuneHugePages(): Promise<void> {
  if ((await readHugePages()) === undefined)
    throw new RametError("HostUnsupported", "Setting huge pages failed: this kernel has no transparent huge pages");
  try {
    for (const [name, value] of Object.entries(wanted)) await writeFile(`${directory}/${name}`, value);
  } catch (cause) {
    throw new RametError("Forbidden", "Setting huge pages failed: only root may change them", {
      hint: `As root: ${asRoot}`,
      cause,
    });
  }
}

/** The file lists all choices, with the one that holds in brackets. */
async function chosen(name: Setting): Promise<string> {
  const text = await readFile(`${directory}/${name}`, "utf8");
  const choice = /\[(\S+)\]/.exec(text)?.[1];
  if (choice === undefined) throw new RametError("HostUnsupported", `${directory}/${name} is not as expected: ${text}`);
  return choice;
}
