import { checkpointController } from "./checkpoint/register.ts";
import type { Controller, ControllerParts } from "./common/controller-parts.ts";
import { namedSnapshotController } from "./named-snapshot/register.ts";
import { sandboxController } from "./sandbox/register.ts";
import { sandboxClaimController } from "./sandbox-claim/register.ts";
import { sandboxSetController } from "./sandbox-set/register.ts";

/** Every controller that `ramet controller` runs, each made from the same parts. */
export function controllerTable(parts: ControllerParts): Controller[] {
  return [
    sandboxController(parts),
    checkpointController(parts),
    sandboxSetController(parts),
    sandboxClaimController(parts),
    namedSnapshotController(parts),
  ];
}
