import type { RequestRecord } from "../../src/kube/kube-client.ts";

export function writeOf({ verb, resource, subresource }: RequestRecord): string {
  return [verb, resource.plural, subresource].filter(Boolean).join(" ");
}

/** How many milliseconds it took. */
export async function took(work: () => Promise<unknown>): Promise<number> {
  const began = performance.now();
  await work();
  return performance.now() - began;
}

/**
 * Without what slowness costs: who is not done within half a second gets a status in between, which says so. On a busy machine
 * that is everybody, and then all that is proven is that there are no other writes.
 */
export function besidesSlowness(writes: readonly string[], milliseconds: number, status: string, wanted = 1): string[] {
  let more = milliseconds < 450 ? 0 : writes.filter((write) => write === status).length - wanted;
  return writes.filter((write) => write !== status || more-- <= 0);
}
