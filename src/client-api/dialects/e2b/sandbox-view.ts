import type { Sandbox } from "../../../api/kinds/sandbox.ts";
import type { SandboxTemplate } from "../../../api/kinds/sandbox-template.ts";
import { annotations, labels } from "../../../api/names/labels.ts";
import { PodTemplateSpec } from "../../../api/schema/pod-template.ts";
import { quantityToBytes, quantityToMillicores } from "../../../base/quantity.ts";
import { findCondition } from "../../../kube/conditions.ts";
import { sandboxIdOf } from "../../service/find-sandbox.ts";
import { endOf, onTimeoutOf } from "../../service/lifecycle.ts";
import type { ListedSandbox } from "./answers.ts";
import { metadataOf } from "./metadata.ts";

/** A constant in E2B too. */
export const clientId = "ramet";

/** A sandbox without an end has this one, because clients expect a time. */
const never = "9999-12-31T23:59:59Z";

/** Returns a sandbox as E2B's clients get it in lists. */
export function listedSandbox(
  sandbox: Sandbox,
  template: SandboxTemplate | undefined,
  envdVersion: string,
): ListedSandbox {
  const isPaused = sandbox.spec.paused === true;
  return {
    templateID: templateIdOf(sandbox),
    sandboxID: sandboxIdOf(sandbox),
    clientID: clientId,
    startedAt: startedAt(sandbox),
    endAt: isPaused ? pausedAt(sandbox) : (endOf(sandbox)?.toISOString() ?? never),
    ...sizesOf(sandbox.spec.template ?? template?.spec.template),
    state: isPaused ? ("paused" as const) : ("running" as const),
    envdVersion,
    metadata: metadataOf(sandbox),
    name: sandbox.metadata.name,
    namespace: sandbox.metadata.namespace,
  };
}

/** How the sandbox ends, and whether traffic resumes it. */
export function lifecycleOf(sandbox: Sandbox) {
  return {
    onTimeout: onTimeoutOf(sandbox) === "kill" ? ("kill" as const) : ("pause" as const),
    autoResume: sandbox.metadata.annotations?.[annotations.autoResume] !== undefined,
  };
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

/** The smallest values that clients accept, for a sandbox without limits. */
const least = { cpuCount: 1, memoryMB: 128 };

/** @param template a Pod template, which may not be valid */
export function sizesOf(template: unknown) {
  const main = PodTemplateSpec.safeParse(template).data?.spec.containers[0];
  const { limits = {}, requests = {} } = main?.resources ?? {};
  const mebibytes = (name: string): number => Math.floor(bytes(limits[name] ?? requests[name]) / 2 ** 20);
  return {
    cpuCount: Math.max(least.cpuCount, Math.ceil(cores(limits["cpu"] ?? requests["cpu"]))),
    memoryMB: Math.max(least.memoryMB, mebibytes("memory")),
    diskSizeMB: mebibytes("ephemeral-storage"),
  };
}

type Quantity = string | number | undefined;

function bytes(quantity: Quantity): number {
  try {
    return quantity === undefined ? 0 : quantityToBytes(quantity);
  } catch {
    return 0;
  }
}

function cores(quantity: Quantity): number {
  try {
    return quantity === undefined ? 0 : quantityToMillicores(quantity) / 1000;
  } catch {
    return 0;
  }
}
