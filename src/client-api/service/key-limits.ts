import { annotations } from "../../api/names/labels.ts";
import { RametError } from "../../base/errors.ts";
import type { Caller } from "../keys/callers.ts";
import type { ServiceParts } from "./parts.ts";
import { snapshotBytesOf } from "./snapshots.ts";

interface Limited<Limit extends keyof Caller["limits"]> extends Pick<Caller, "key" | "namespace"> {
  limits: Pick<Caller["limits"], Limit>;
}

/** Two requests at the same time can exceed the limit by one. @throws RametError `QuotaExceeded` */
export function checkSandboxLimit({ known }: ServiceParts, { key, namespace, limits }: Limited<"sandboxes">): void {
  if (limits.sandboxes === Infinity) return;
  const used = known
    .sandboxesIn(namespace)
    .filter((sandbox) => sandbox.metadata.annotations?.[annotations.owner] === key);
  if (used.length < limits.sandboxes) return;
  throw new RametError("QuotaExceeded", `The API key ${key} has ${used.length} sandboxes, and may have no more`);
}

/** The size of a snapshot is known afterwards, so the last one can exceed the limit. @throws RametError `QuotaExceeded` */
export function checkSnapshotLimit(parts: ServiceParts, { key, namespace, limits }: Limited<"snapshotBytes">): void {
  if (limits.snapshotBytes === Infinity) return;
  const used = snapshotBytesOf(parts, namespace, key);
  if (used < limits.snapshotBytes) return;
  const message = `The snapshots of the API key ${key} have ${used} bytes, and may have ${limits.snapshotBytes}`;
  throw new RametError("QuotaExceeded", message, { hint: "Delete snapshots that nobody needs" });
}
