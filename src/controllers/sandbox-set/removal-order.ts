import type { Member } from "./state.ts";

/**
 * Who goes first when a set gets smaller, as the reference has it: of an old revision, then Pending, then recycled (the
 * most often first), then running and not ready, then the rest; the oldest of each first.
 */
export function removalOrder(isUpdated: (member: Member) => boolean): (a: Member, b: Member) => number {
  const ranks = (member: Member): number[] => [
    isUpdated(member) ? 1 : 0,
    classOf(member),
    -(member.sandbox.status?.recycledCount ?? 0),
  ];
  return (a, b) => {
    const [first, second] = [ranks(a), ranks(b)];
    const at = first.findIndex((rank, index) => rank !== second[index]);
    if (at >= 0) return (first[at] ?? 0) - (second[at] ?? 0);
    return ageKey(a) < ageKey(b) ? -1 : 1;
  };
}

function classOf({ sandbox, state }: Member): number {
  const { phase, recycledCount = 0 } = sandbox.status ?? {};
  if (phase === undefined || phase === "Pending") return 0;
  if (recycledCount > 0) return 1;
  return state === "creating" ? 2 : 3;
}

/** Two of one second have an order as well, and always the same. */
function ageKey({ sandbox: { metadata } }: Member): string {
  return `${metadata.creationTimestamp} ${metadata.uid}`;
}
