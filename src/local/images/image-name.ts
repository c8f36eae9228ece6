/**
 * One spelling for the names that mean the same image, by the rules of container registries: `python`, `python:latest`
 * and `docker.io/library/python` are one.
 */
export function canonicalImageName(name: string): string {
  return name
    .trim()
    .replace(/^docker\.io\//, "")
    .replace(/^library\//, "")
    .replace(/:latest$/, "");
}
