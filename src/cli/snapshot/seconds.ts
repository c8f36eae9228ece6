/** How long a build or a step took: `0.3s`; nothing where that is not known. */
export function seconds(milliseconds: number | undefined): string {
  return milliseconds === undefined ? "" : `${(milliseconds / 1000).toFixed(1)}s`;
}
