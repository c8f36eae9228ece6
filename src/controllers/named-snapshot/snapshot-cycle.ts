/**
 * The names on the way from a snapshot back to itself, beginning and ending with it; undefined when it is no descendant
 * of its own.
 * @param parentOf which snapshot that one is built from, if from any
 */
export function snapshotCycle(name: string, parentOf: (name: string) => string | undefined): string[] | undefined {
  const path = [name];
  const met = new Set(path);
  for (let parent = parentOf(name); parent !== undefined; parent = parentOf(parent)) {
    path.push(parent);
    if (parent === name) return path;
    // A cycle further up is theirs who are in it; this one waits for its parent.
    if (met.has(parent)) return undefined;
    met.add(parent);
  }
  return undefined;
}
