/**
 * A command that first moves itself into the leaves and then becomes `program`: all that this starts is in there from its
 * first page on. Node can start no process in another group, and moving gVisor afterwards costs 3 to 10 ms a leaf and
 * leaves its first memory with the cell. The shell costs 2 ms.
 */
export function inLeaves(
  enter: readonly string[],
  program: string,
  args: readonly string[],
): { program: string; args: string[] } {
  if (enter.length === 0) return { program, args: [...args] };
  return { program: "/bin/sh", args: ["-c", script, "ramet-enter", ...enter, "--", program, ...args] };
}

/** Exit code 125: the program was never started; env(1) and its like use it so. */
const script = `while [ "$1" != -- ]; do echo 0 > "$1" || exit 125; shift; done; shift; exec "$@"`;
