/** The longest life of a sandbox that a client of tools can request. */
export function longestLifeSeconds(milliseconds = 30 * 86_400_000): number {
  return Math.max(1, Math.floor(milliseconds / 1000));
}
