import { type Socket, connect } from "node:net";
import { type Checkpoint, type CheckpointManifest, checkpointKind } from "../../api/kinds/checkpoint.ts";
import {
  type SandboxTemplateManifest,
  type SandboxTemplateSpec,
  sandboxTemplateKind,
} from "../../api/kinds/sandbox-template.ts";
import type { Sandbox } from "../../api/kinds/sandbox.ts";
import { annotations, originAnnotations, restoreFromAnnotations } from "../../api/names/labels.ts";
import { guestClientPort } from "../../api/wire/cell-api.ts";
import { type Clock, systemClock } from "../../base/clock.ts";
import { defined } from "../../base/defined.ts";
import { RametError } from "../../base/errors.ts";
import { within } from "../../base/within.ts";
import { GuestClient } from "../../cell/client/guest-client.ts";
import type { SandboxRef, SandboxRuntime } from "../runtime.ts";

/** The annotations that OpenKruise's manager writes on the Sandbox of a clone, and that ACS reads on its Pod template. */
const [, kruiseRestoreFrom, acsRestoreFrom] = restoreFromAnnotations;

/** A Sandbox that OpenKruise's or ACS' controllers make a clone. */
interface AcsClone {
  annotations: Record<string, string>;
  spec: SandboxTemplateSpec;
}

/**
 * The clone of a checkpoint, as the page "Clone an Agent Sandbox with Checkpoint" of ACS shows it: the source's template with two
 * annotations. The Sandbox has the one that OpenKruise's manager writes.
 * @param source the template of the checkpoint's source
 */
export function acsClone(source: SandboxTemplateSpec, checkpointId: string): AcsClone {
  return {
    annotations: { [kruiseRestoreFrom]: checkpointId },
    spec: withAnnotations(source, { ...pausable, [acsRestoreFrom]: checkpointId }),
  };
}

/** The template, whose sandboxes can be captured: without the annotation, ACS captures no sandbox. */
export function acsCapturable(source: SandboxTemplateSpec): SandboxTemplateSpec {
  return withAnnotations(source, pausable);
}

/** The annotations of a set's Pod template that make its sandboxes clones. */
export function acsCloneAnnotations(checkpointId: string): Record<string, string> {
  return { ...pausable, [acsRestoreFrom]: checkpointId };
}

/** The request for a checkpoint. A sandbox's Pod has the sandbox's name. (Source: as `acsClone`.) */
export function acsCheckpointSpec(
  podName: string,
  persistentContents: readonly ("memory" | "filesystem")[] | undefined,
  ttlAfterFinished?: string,
): NonNullable<CheckpointManifest["spec"]> {
  return {
    podName,
    keepRunning: true,
    ...(persistentContents && { persistentContents: [...persistentContents] }),
    ...defined({ ttlAfterFinished }),
  };
}

/**
 * The whole template of a sandbox, with the fields that it takes from a SandboxTemplate.
 * @param named the SandboxTemplate to which it refers
 */
export function acsTemplateOf({ spec }: Sandbox, named: SandboxTemplateSpec | undefined): SandboxTemplateSpec {
  const { template, volumeClaimTemplates, persistentContents, runtimes } = spec;
  const own = Object.entries({ template, volumeClaimTemplates, persistentContents, runtimes });
  return { ...named, ...Object.fromEntries(own.filter(([, value]) => value !== undefined)) };
}

/**
 * The SandboxTemplate that keeps the template of a checkpoint's source. It has the name of the Checkpoint, which owns it. These
 * controllers keep no template of a checkpoint that they did not request themselves.
 */
export function acsKeptTemplate({ metadata }: Checkpoint, spec: SandboxTemplateSpec): SandboxTemplateManifest {
  const { name, namespace, uid } = metadata;
  const { apiVersion, kind } = checkpointKind;
  return {
    apiVersion: sandboxTemplateKind.apiVersion,
    kind: "SandboxTemplate",
    metadata: { name, namespace, ownerReferences: [{ apiVersion, kind, name, uid, controller: true }] },
    spec,
  };
}

const pausable = { [annotations.acsPauseEnabled]: "true" };

/** A template without the origin of its own sandbox, and with other annotations. It has no schema, so it can hold anything. */
function withAnnotations(source: SandboxTemplateSpec, added: Record<string, string>): SandboxTemplateSpec {
  const template = (source.template ?? {}) as { metadata?: { annotations?: Record<string, string> } };
  const own = Object.entries(template.metadata?.annotations ?? {});
  const origins: readonly string[] = originAnnotations;
  const kept = Object.fromEntries(own.filter(([key]) => !origins.includes(key)));
  const metadata = { ...template.metadata, annotations: { ...kept, ...added } };
  return { ...source, template: { ...template, metadata } };
}

/**
 * Enters sandboxes that another controller runs: envd listens on port 49983 of the Pod. The address is that of the Sandbox's
 * status. The annotation `runtime-url` is not used, because everyone who can change a Sandbox could name any address there.
 */
export function podGuests(clock: Clock = systemClock): Pick<SandboxRuntime, "guest" | "acceptsConnections"> {
  return {
    guest: (target, user) =>
      new GuestClient({
        dial: (signal) => dial(target, guestClientPort, clock, signal),
        ...defined({ user }),
      }),
    async acceptsConnections(target, port, signal) {
      try {
        (await dial(target, port, clock, signal)).destroy();
        return true;
      } catch (error) {
        const { code } = RametError.from(error);
        if (code === "Unavailable" || code === "Timeout") return false;
        throw error;
      }
    },
  };
}

function dial({ name, podIp }: SandboxRef, port: number, clock: Clock, signal?: AbortSignal): Promise<Socket> {
  const what = `Connecting to port ${port} of the sandbox ${name}`;
  const unreachable = (why: string): RametError =>
    new RametError("Unavailable", `${what} failed: ${why}`, {
      retryable: true,
      hint: "Check with kubectl get sandbox -o yaml that the Pod has an address, and that its template starts envd",
    });
  return within({ clock, milliseconds: dialMilliseconds, what, retryable: true, signal }, (timeout) => {
    const { promise, resolve, reject } = Promise.withResolvers<Socket>();
    if (podIp === "") return Promise.reject(unreachable("its Pod has no address"));
    const socket = connect({ host: podIp, port, signal: timeout });
    socket.once("error", (error) => {
      reject(unreachable(error.message));
    });
    socket.once("connect", () => {
      resolve(socket);
    });
    return promise;
  });
}

const dialMilliseconds = 5_000;
