import { annotations } from "../../api/names/labels.ts";
import { RametError } from "../../base/errors.ts";
import type { Caller } from "../keys/callers.ts";
import type { ServiceParts } from "./parts.ts";
import { snapshotBytesOf } from "./snapshots.ts";

type Limited = Pick<Caller, "key" | "namespace" | "limits">;

/** Two requests at the same time can exceed the limit by one. @throws RametError `QuotaExceeded` */
export function checkSandboxLimit({ known }: ServiceParts, { key, namespace, limits }: Limited, added = 1): void {
  if (limits.sandboxes === Infinity) return;
  const used = known
    .sandboxesIn(namespace)
    .filter((sandbox) => sandbox.metadata.annotations?.[annotations.owner] === key);
  if (used.length + added <= limits.sandboxes) return;
  const message = `The API key ${key} has ${used.length} sandboxes, and may have ${limits.sandboxes}`;
  throw new RametError("QuotaExceeded", message, { hint: "Delete sandboxes that nobody needs" });
}

/** The size of a snapshot is known afterwards, so the last one can exceed the limit. @throws RametError `QuotaExceeded` */
export function checkSnapshotLimit(parts: ServiceParts, { key, namespace, limits }: Limited): void {
  if (limits.snapshotBytes === Infinity) return;
  const used = snapshotBytesOf(parts, namespace, key);
  if (used < limits.snapshotBytes) return;
  const message = `The snapshots of the API key ${key} have ${used} bytes, and may have ${limits.snapshotBytes}`;
  throw new RametError("QuotaExceeded", message, { hint: "Delete snapshots that nobody needs" });
}
