import { rootCertificates } from "node:tls";
import type { LayerRef } from "../../api/wire/grant.ts";
import type { EngineBuild } from "../../api/engine/engine.ts";
import type { Clock } from "../../base/clock.ts";
import { RametError } from "../../base/errors.ts";
import type { EntrypointLog } from "../sandbox/entrypoint-log.ts";
import type { GuestIdentity } from "../sandbox/handover.ts";
import type { SandboxEnvironment } from "../sandbox/sandbox-environment.ts";
import type { CellSetting } from "../setting/cell-setting.ts";
import type { Activity } from "../checkpoint/activity.ts";
import type { States } from "./states.ts";
import { cachedLayers } from "../layers/layer-cache.ts";
import type { NodeCache } from "../layers/node-cache.ts";
import type { LinkCredentials } from "../../api/wire/cell-api.ts";
import type { EntrypointExit, GuestControl } from "../client/guest-control.ts";
import type { UnpackedLayer } from "../sandbox/sandbox.ts";
import type { Link, SpawnedLink } from "../network/link.ts";

export interface CellDependencies {
  setting: CellSetting;
  /** Started while the cell read its setting. It ends with its input, so it does not outlive the cell. */
  spawnedLink: SpawnedLink;
  log: EntrypointLog;
  clock: Clock;
  /** Logs for the operator. Never pass a secret. */
  report: (message: string, detail?: Record<string, unknown>) => void;
  /** What the cells of the node share. Undefined: nothing. */
  cache: NodeCache | undefined;
  activity: Activity;
}

/** The objects that the operations of one cell share. */
export interface CellCore {
  setting: CellSetting;
  clock: Clock;
  states: States;
  identity: GuestIdentity;
  environment: SandboxEnvironment;
  credentials: CellCredentials;
  cache: CellDependencies["cache"];
  activity: Activity;
  /** Logs for the operator. Never pass a secret. */
  report: (message: string, detail?: Record<string, unknown>) => void;
  /** Returns the build of gVisor and guest. It is determined once and recorded in the state. */
  engineBuild: () => Promise<EngineBuild>;
  /** Records the CPU features of the memory that was restored: a later checkpoint of it needs those, not those of this CPU. */
  setMemoryFeatures: (features: readonly string[] | undefined) => void;
  /** Moves the cell to `failed`, unless it is stopping or has failed already. */
  fail: (error: unknown) => void;
  /** Called when the entrypoint of the current sandbox has exited. */
  onEntrypointExit: (exit: EntrypointExit) => void;
}

/** Hands credentials to link, and keeps nothing of them but the certificate that the sandbox must trust. */
export class CellCredentials {
  #certificate: string | undefined;

  /** @throws RametError `InvalidArgument`, which names no value */
  async give(link: Link, credentials: LinkCredentials): Promise<void> {
    const trusted = credentials.tls?.trusted;
    const roots = [publicRoots(), ...(trusted === undefined ? [] : [trusted])].join("\n");
    this.#certificate = await link.setCredentials(credentials, credentials.tls === undefined ? "" : roots);
  }

  /** Makes the programs of the sandbox trust link's CA, if there is one. A repeat changes nothing. */
  async trustedBy(guest: GuestControl): Promise<void> {
    if (this.#certificate !== undefined) await guest.trust(this.#certificate, publicRoots());
  }
}

/** The public CAs of Node.js: the cell's image may have none. */
function publicRoots(): string {
  return rootCertificates.join("\n");
}

/** Creates the sandbox that waits for a restore of these layers, if this node has them. */
export async function createWaitingOn(core: CellCore, layers: readonly LayerRef[]): Promise<void> {
  createWaiting(core, await cachedLayers(layers, core.setting.paths, core.cache));
}

/**
 * Creates the sandbox that waits for a restore. A failure is logged: the cell works without it.
 * @param layers those of what will be restored. Undefined: they are not known, and no sandbox is created
 */
export function createWaiting(
  { environment, report }: Pick<CellCore, "environment" | "report">,
  layers: readonly UnpackedLayer[] | undefined,
): void {
  if (layers === undefined) return;
  environment.keepWaiting(layers).catch((error: unknown) => {
    report("creating the waiting sandbox failed", { message: RametError.from(error).message });
  });
}
