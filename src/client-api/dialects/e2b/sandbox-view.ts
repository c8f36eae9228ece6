import type { Sandbox } from "../../../api/kinds/sandbox.ts";
import { annotations, labels } from "../../../api/names/labels.ts";
import { PodTemplateSpec } from "../../../api/schema/pod-template.ts";
import { quantityToBytes, quantityToMillicores } from "../../../base/quantity.ts";
import { defaultLayerBytes } from "../../../api/wire/cell-api.ts";
import { envdVersion } from "../../../cell/client/guest-wire.ts";
import { resultOr } from "../../../base/errors.ts";
import { filesOnlyPause } from "../../../operations/pause.ts";
import { findCondition } from "../../../kube/conditions.ts";
import { sandboxIdOf } from "../../service/find-sandbox.ts";
import { endOf, onTimeoutOf } from "../../service/lifecycle.ts";
import type { KnownObjects } from "../../service/parts.ts";
import type { ListedSandbox } from "./answers.ts";
import { metadataOf } from "../../service/client-metadata.ts";

/** A constant in E2B too. */
export const clientId = "ramet";

/** A sandbox without an end has this one, because clients expect a time. */
const never = "9999-12-31T23:59:59Z";

/** Returns a sandbox as E2B's clients get it in lists. */
export function listedSandbox({ known }: { known: Pick<KnownObjects, "template"> }, sandbox: Sandbox): ListedSandbox {
  const { name, namespace } = sandbox.metadata;
  const { paused: isPaused = false, template, templateRef } = sandbox.spec;
  return {
    templateID: templateIdOf(sandbox),
    sandboxID: sandboxIdOf(sandbox),
    clientID: clientId,
    startedAt: startedAt(sandbox),
    endAt: isPaused ? pausedAt(sandbox) : (endOf(sandbox)?.toISOString() ?? never),
    ...sizesOf(template ?? (templateRef && known.template(`${namespace}/${templateRef.name}`)?.spec.template)),
    ...sizesIn(sandbox),
    state: isPaused ? "paused" : "running",
    envdVersion,
    metadata: metadataOf(sandbox),
    name,
    namespace,
  };
}

/** How the sandbox ends, and whether traffic resumes it. */
export function lifecycleOf(sandbox: Sandbox) {
  return {
    onTimeout: onTimeoutOf(sandbox) === "kill" ? ("kill" as const) : ("pause" as const),
    autoResume: sandbox.metadata.annotations?.[annotations.autoResume] !== undefined,
  };
}

/** What the pause of a paused sandbox has kept. */
export function pauseModeOf(sandbox: Sandbox): "full" | "filesystem" {
  return filesOnlyPause(sandbox) === undefined ? "filesystem" : "full";
}

/** The name from which the sandbox was created. */
export function templateIdOf({ metadata, spec, status }: Sandbox): string {
  return (
    metadata.annotations?.[annotations.clientTemplate] ??
    status?.ramet?.restoredFrom ??
    metadata.labels?.[labels.sandboxTemplate] ??
    spec.templateRef?.name ??
    metadata.name
  );
}

/** RFC 3339. */
export function startedAt({ metadata }: Sandbox): string {
  const noted = metadata.annotations?.[annotations.claimTimestamp];
  const time = Date.parse(noted ?? metadata.creationTimestamp);
  return new Date(Number.isNaN(time) ? 0 : time).toISOString();
}

function pausedAt(sandbox: Sandbox): string {
  return findCondition(sandbox.status?.conditions, "SandboxPaused")?.lastTransitionTime ?? startedAt(sandbox);
}

/** The sizes that a sandbox has reported. */
function sizesIn({ status }: Sandbox): Partial<ReturnType<typeof sizesOf>> {
  const { capacity, writableLayer } = status?.ramet ?? {};
  return {
    ...(capacity !== undefined && {
      cpuCount: Math.ceil(capacity.cpuMillis / 1000),
      memoryMB: Math.floor(capacity.memoryBytes / 2 ** 20),
    }),
    ...(writableLayer !== undefined && { diskSizeMB: Math.floor(writableLayer.sizeBytes / 2 ** 20) }),
  };
}

/**
 * The sizes of a sandbox, at least the smallest ones that clients accept.
 * @param template a Pod template, which may not be valid
 */
export function sizesOf(template: unknown) {
  const main = PodTemplateSpec.safeParse(template).data?.spec.containers[0];
  const { limits = {}, requests = {} } = main?.resources ?? {};
  const amount = (name: string, read: (quantity: string | number) => number): number =>
    resultOr(() => read(limits[name] ?? requests[name] ?? 0), 0);
  return {
    cpuCount: Math.max(1, Math.ceil(amount("cpu", quantityToMillicores) / 1000)),
    memoryMB: Math.max(128, Math.floor(amount("memory", quantityToBytes) / 2 ** 20)),
    diskSizeMB: Math.floor((amount("ephemeral-storage", quantityToBytes) || defaultLayerBytes) / 2 ** 20),
  };
}
