import { checkpointKind } from "./checkpoint.ts";
import { namedSnapshotKind } from "./named-snapshot.ts";
import { sandboxClaimKind } from "./sandbox-claim.ts";
import { sandboxKind } from "./sandbox.ts";
import { sandboxSetKind } from "./sandbox-set.ts";
import { sandboxTemplateKind } from "./sandbox-template.ts";

/** All kinds, in the order in which their CRDs are installed. */
export const kinds = [
  sandboxKind,
  sandboxSetKind,
  sandboxTemplateKind,
  sandboxClaimKind,
  checkpointKind,
  namedSnapshotKind,
] as const;
