/**
 * Returns a number from 1 to 248 for loopback addresses of this process. The workers of one run have the pool ids 1 to 4, so no two of
 * them have the same number. Other runs on the machine most likely differ by their process ids.
 */
export function addressBlock(): number {
  const worker = Number(process.env["VITEST_POOL_ID"] ?? 0);
  return 8 * (process.pid % 31) + (worker % 8) + 1;
}
