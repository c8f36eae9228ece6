import * as z from "zod";
import type { Sandbox } from "../../../api/kinds/sandbox.ts";
import { annotations } from "../../../api/names/labels.ts";
import { defined } from "../../../base/defined.ts";
import { connectSandbox, currentState } from "../../service/lifecycle.ts";
import { findSandbox, sandboxIdOf, uidOf } from "../../service/find-sandbox.ts";
import { needs } from "../../keys/needs.ts";
import type { ToolParts } from "./tool.ts";

/** Clients wait 60 seconds by default. */
export const waitMilliseconds = 55_000;

export const SandboxName = z.string().min(1).max(130).describe("The name or the id of the sandbox");

/** @throws RametError `NotFound`, also for sandboxes of other namespaces */
export function sandboxOf({ service, actor }: ToolParts, text: string, signal: AbortSignal): Promise<Sandbox> {
  const { namespace } = actor;
  return findSandbox(service, namespace, uidOf(text) === undefined ? `${namespace}--${text}` : text, signal);
}

/** The same, but resumes the sandbox if it is paused. */
export async function runningSandbox(parts: ToolParts, text: string, signal: AbortSignal): Promise<Sandbox> {
  const { service, actor } = parts;
  const sandbox = await sandboxOf(parts, text, signal);
  const state = currentState(service, sandbox);
  if (state !== "paused" && state !== "pausing") return sandbox;
  await actor.require(...needs.change);
  const waiting = { timeoutMilliseconds: waitMilliseconds, signal };
  const connected = await connectSandbox(service, sandbox, { ...waiting, lifeMilliseconds: resumedMilliseconds });
  return connected.sandbox;
}

const resumedMilliseconds = 3_600_000;

/** Returns a sandbox as tools report it. */
export function sandboxView({ service }: ToolParts, sandbox: Sandbox) {
  const { metadata, spec, status } = sandbox;
  const state = currentState(service, sandbox);
  const source = metadata.annotations?.[annotations.clientTemplate] ?? status?.ramet?.restoredFrom;
  const endsAt = spec.pauseTime ?? spec.shutdownTime;
  return {
    name: metadata.name,
    id: sandboxIdOf(sandbox),
    state,
    created: metadata.creationTimestamp,
    ...defined({ source }),
    ...(endsAt !== undefined && { ends: endsAt, thenIs: spec.pauseTime === undefined ? "deleted" : "paused" }),
    ...(state === "ended" && status?.message !== undefined && { message: status.message }),
  };
}
