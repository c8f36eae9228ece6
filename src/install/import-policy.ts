import { importGuard } from "../api/volumes/import-guard.ts";
import { admissionPolicy } from "./admission-policy.ts";
import type { Manifest } from "./manifest.ts";

/** The policy without which the controllers import no volumes. */
export function importPolicy(): Manifest[] {
  return admissionPolicy(importGuard);
}
