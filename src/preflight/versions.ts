/** The numbers of a version such as `v1.36.3-gke.100`, `2.1.4` or `1.7.27~ds1`. Empty if there are none. */
export function readVersion(text: string): number[] {
  const [, numbers = ""] = /^v?(\d+(?:\.\d+)*)/.exec(text) ?? [];
  return numbers === "" ? [] : numbers.split(".").map(Number);
}

/** Whether a version is the minimum or a later one. An unreadable version is not. */
export function isAtLeast(text: string, minimum: string): boolean {
  const found = readVersion(text);
  if (found.length === 0) return false;
  for (const [at, needed] of readVersion(minimum).entries()) {
    const number = found[at] ?? 0;
    if (number !== needed) return number > needed;
  }
  return true;
}
