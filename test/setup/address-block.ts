/**
 * Returns a number from 1 to 248 for loopback addresses of this process. Two workers of one run have consecutive pool ids,
 * so one gets even numbers and the other odd ones. Other runs on the machine most likely differ by their process ids.
 */
export function addressBlock(): number {
  const worker = Number(process.env["VITEST_POOL_ID"] ?? 0);
  return 2 * (process.pid % 124) + (worker % 2) + 1;
}
