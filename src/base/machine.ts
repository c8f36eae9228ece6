/** A mount of proc_pid_mountinfo(5). */
export interface Mount {
  device: string;
  /** The directory of its file system that is mounted. */
  root: string;
  target: string;
  isReadOnly: boolean;
  type: string;
  /** The file system's options. For control groups of version 1 they include the controllers. */
  options: string[];
}

/** Parses `/proc/self/mountinfo`. */
export function parseMounts(text: string): Mount[] {
  return text.split("\n").flatMap((line) => {
    const [before, after] = line.split(" - ");
    const [, , device, root, target, flags] = before?.split(" ") ?? [];
    const [type, , options] = after?.split(" ") ?? [];
    if (device === undefined || root === undefined || target === undefined || type === undefined) return [];
    const isReadOnly = flags?.split(",").includes("ro") === true;
    const paths = { root: unescaped(root), target: unescaped(target) };
    return [{ device, ...paths, isReadOnly, type, options: options?.split(",") ?? [] }];
  });
}

/** Spaces and similar characters are octal escapes. */
function unescaped(text: string): string {
  return text.replace(/\\([0-7]{3})/g, (_, octal: string) => String.fromCharCode(Number.parseInt(octal, 8)));
}

/** The architecture of this machine, as Go, images and Kubernetes name it: `amd64`, `arm64`. */
export const goArchitecture = process.arch === "x64" ? "amd64" : process.arch;
