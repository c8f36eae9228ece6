import type { UserKindName } from "./user-kind.ts";

/** The kinds whose objects can fail for good. */
const failingKinds = ["sandbox", "checkpoint", "claim"] as const;
export type FailingKind = (typeof failingKinds)[number];

export function canFail(kind: UserKindName): kind is FailingKind {
  return (failingKinds as readonly string[]).includes(kind);
}
