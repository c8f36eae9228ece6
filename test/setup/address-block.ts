/**
 * A number from 1 to 248 that makes loopback addresses this process's own: of two workers of one run, whose pool ids follow each
 * other, one has the even ones; other runs on the machine are told apart by their process ids, most likely.
 */
export function addressBlock(): number {
  const worker = Number(process.env["VITEST_POOL_ID"] ?? 0);
  return 2 * (process.pid % 124) + (worker % 2) + 1;
}
