import type { EgressPolicy } from "../api/cell/cell-api.ts";
import type { Sandbox } from "../api/kinds/sandbox.ts";
import type { Pod } from "../api/schema/pod.ts";
import type { GuestClient } from "../cell/client/guest-client.ts";
import type { Phases } from "../base/phases.ts";

/** Runs sandboxes. A `Backend` takes their checkpoints. */
export interface SandboxRuntime {
  /** Assigns an identity to a new sandbox. Resolves when the sandbox responds. */
  boot(target: SandboxRef, environment: Record<string, string>): Promise<Started>;
  /** Gives a running sandbox another environment, which new commands get. A repeated call changes nothing. */
  adopt(target: SandboxRef, environment: Record<string, string>): Promise<{ generation: number }>;
  /** Gives a running sandbox another egress policy, which also ends open connections that it denies. */
  setEgress(target: SandboxRef, policy: EgressPolicy): Promise<void>;
  /** Stops a sandbox; its Pod becomes Succeeded. A running capture is completed first. */
  stop(target: SandboxRef, reason: string): Promise<void>;
  /** @param user the user for commands and files; absent: the entrypoint's user */
  guest(target: SandboxRef, user?: string): SandboxGuest;
  /**
   * Whether a TCP port of the sandbox accepts connections from outside.
   * @throws RametError `Canceled`, and any error of the call itself
   */
  acceptsConnections(target: SandboxRef, port: number, signal?: AbortSignal): Promise<boolean>;
}

/** The commands and files of a sandbox: the part of the guest's client that controllers use. Any runtime can implement it. */
export type SandboxGuest = Pick<
  GuestClient,
  "startProcess" | "connect" | "listProcesses" | "list" | "stat" | "readFile" | "writeFile"
>;

/** A sandbox that responds, or, after a part without files, one that still has to be started. */
export interface Started {
  /** How often the sandbox has been given an identity. Absent: this part did not start it. */
  generation?: number;
  /** Absent: the part has no memory that is loaded later. */
  memory?: "loading" | "loaded";
  /** Milliseconds by phase, in order. */
  phases: Phases;
}

/** A sandbox with its running Pod. */
export interface SandboxRef {
  namespace: string;
  name: string;
  uid: string;
  /** The Pod's address; empty: it has none. */
  podIp: string;
  /** The PersistentVolumeClaims that the Pod mounts. */
  claims: readonly string[];
}

export function sandboxRef({ metadata, status }: Pick<Sandbox, "metadata" | "status">, pod?: Pod): SandboxRef {
  const { namespace, name, uid } = metadata;
  const podIp = pod?.status?.podIP ?? status?.sandboxIp ?? status?.podInfo?.podIP ?? "";
  const claims = (pod?.spec.volumes ?? []).flatMap((volume) => claimOf(volume) ?? []);
  return { namespace, name, uid, podIp, claims };
}

function claimOf(volume: Record<string, unknown>): string | undefined {
  const claim = volume["persistentVolumeClaim"] as { claimName?: string } | undefined;
  return claim?.claimName;
}
