import type { EngineBuild } from "../api/engine/engine.ts";
import type { EgressPolicy, KeySets, LinkCredentials } from "../api/wire/cell-api.ts";
import { type VolumeClaim, volumeClaims } from "../api/pod/volume-claims.ts";
import type { Capacity, ReplacedPrograms, SandboxActivity, WritableLayer } from "../api/schema/metadata.ts";
import type { Sandbox } from "../api/kinds/sandbox.ts";
import type { Pod } from "../api/schema/pod.ts";
import type { CellKey } from "../cell/client/cell-token.ts";
import type { GuestClient } from "../cell/client/guest-client.ts";
import type { Phases } from "../base/clock.ts";

/** Runs sandboxes. A `Backend` takes their checkpoints. Aborting a signal ends the wait for the cell, not its operation. */
export interface SandboxRuntime {
  /**
   * Returns the target with the key of its cell. Call it before an operation that hands over an identity or a grant, unless
   * the status has the key: it asks the cell, and then checks that the Pod still has its address.
   * @throws RametError `Unavailable` (retryable) if the Pod does not have the address
   */
  identified(target: SandboxRef, signal?: AbortSignal): Promise<SandboxRef>;
  /** The gVisor and the CPU of the sandbox's cell, also of one that has just refused a restore. Undefined: it does not report them yet. */
  build(target: SandboxRef): Promise<EngineBuild | undefined>;
  /** What the sandbox has done since its last capture. Undefined: it was not captured, or its cell cannot measure that. */
  activity(target: SandboxRef, signal?: AbortSignal): Promise<SandboxActivity | undefined>;
  /** Assigns an identity to a new sandbox. Resolves when the sandbox responds. */
  boot(target: SandboxRef, environment: Record<string, string>, signal?: AbortSignal): Promise<Started>;
  /** Gives a running sandbox another environment, which new commands get. A repeated call changes nothing. */
  adopt(target: SandboxRef, environment: Record<string, string>, signal?: AbortSignal): Promise<{ generation: number }>;
  /** Gives a running sandbox another egress policy, which also ends open connections that it denies. */
  setEgress(target: SandboxRef, policy: EgressPolicy, signal?: AbortSignal): Promise<void>;
  /** Replaces the credentials that are added to requests of the sandbox. Also for a sandbox that has not started yet. */
  setCredentials(target: SandboxRef, credentials: LinkCredentials, signal?: AbortSignal): Promise<void>;
  /** Replaces the keys whose tokens the cell accepts. */
  setKeys(target: SandboxRef, keys: KeySets): Promise<void>;
  /** Signs calls with this key from now on. */
  useKey(key: CellKey): void;
  /** Says that the sandbox is not captured before its Pod ends. Otherwise it runs on for a part of the Pod's grace period. */
  intendEnd(target: SandboxRef, signal?: AbortSignal): Promise<void>;
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
  /** The build of the cell that started it. Absent: this part did not start it, or the cell did not report it. */
  engine?: EngineBuild;
  /** Absent under the same conditions as `engine`. */
  capacity?: Capacity;
  /** Absent under the same conditions as `engine`. */
  writableLayer?: WritableLayer;
  /** The ids of the checkpoints that hold the layers of its files. Absent: it has none. */
  layers?: string[];
  /** Their sizes, in the same order. */
  layerBytes?: number[];
  /** Absent: not requested, or not known. */
  programs?: ReplacedPrograms;
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
  /** The Pod's UID; absent: it has none. */
  podUid?: string | undefined;
  /** The public key of the Pod's cell; absent: not known yet, or the cell is of a version without one. */
  cellKey?: string | undefined;
  /** The volumes of the Pod that are PersistentVolumeClaims. Two volumes can mount the same one. */
  claims: readonly VolumeClaim[];
}

export function sandboxRef({ metadata, status }: Pick<Sandbox, "metadata" | "status">, pod?: Pod): SandboxRef {
  const { namespace, name, uid } = metadata;
  const podIp = pod?.status?.podIP ?? status?.sandboxIp ?? status?.podInfo?.podIP ?? "";
  const claims = volumeClaims(pod?.spec.volumes ?? [], name);
  return { namespace, name, uid, podIp, claims, ...cellOf(status, pod) };
}

function cellOf(status: Sandbox["status"], pod: Pod | undefined): Pick<SandboxRef, "podUid" | "cellKey"> {
  const recordedUid = status?.podInfo?.podUID;
  const podUid = pod?.metadata.uid ?? recordedUid;
  return { podUid, cellKey: podUid === recordedUid ? status?.ramet?.cellKey : undefined };
}
