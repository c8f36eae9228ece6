import type { ResourceState } from "./state-file.ts";

/** The resources so that whatever depends on another one, or is its child, comes before it. */
export function deletionOrder(resources: readonly ResourceState[]): ResourceState[] {
  const ordered: ResourceState[] = [];
  const seen = new Set<ResourceState>();
  const add = (resource: ResourceState): void => {
    if (seen.has(resource)) return;
    seen.add(resource);
    for (const other of resources) {
      if (other !== resource && (other.parent === resource.urn || other.dependencies.includes(resource.urn)))
        add(other);
    }
    ordered.push(resource);
  };
  // The latest first, where nothing else says so.
  for (const resource of resources.toReversed()) add(resource);
  return ordered;
}
