import { readFile, writeFile } from "node:fs/promises";

const directory = "/sys/kernel/mm/transparent_hugepage";
const wanted = { shmem_enabled: "advise", defrag: "defer" } as const;

/**
 * Enables huge pages for gVisor's memory file, for the whole machine. Returns a function that restores the previous settings.
 * Needs root.
 */
export async function allowHugePages(): Promise<() => Promise<void>> {
  const before = new Map<string, string>();
  for (const [file, value] of Object.entries(wanted)) {
    const path = `${directory}/${file}`;
    before.set(path, /\[(.+?)\]/.exec(await readFile(path, "utf8"))?.[1] ?? "never");
    await writeFile(path, value);
  }
  return async () => {
    for (const [path, value] of before) await writeFile(path, value);
  };
}
