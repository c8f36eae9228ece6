import type { EngineBuild } from "../../api/engine/engine.ts";
import type { Clock } from "../../base/clock.ts";
import type { GuestIdentity } from "../sandbox/guest-identity.ts";
import type { CellCredentials } from "./cell-credentials.ts";
import type { SandboxEnvironment } from "../sandbox/sandbox-environment.ts";
import type { CellSetting } from "../setting/cell-setting.ts";
import type { States } from "./states.ts";

/** The objects that the operations of one cell share. */
export interface CellCore {
  setting: CellSetting;
  clock: Clock;
  states: States;
  identity: GuestIdentity;
  environment: SandboxEnvironment;
  credentials: CellCredentials;
  /** Logs for the operator. Never pass a secret. */
  report: (message: string, detail?: Record<string, unknown>) => void;
  /** Returns the build of gVisor and guest. It is determined once and recorded in the state. */
  engineBuild: () => Promise<EngineBuild>;
  /** Records the CPU features of the memory that was restored: a later checkpoint of it needs those, not those of this CPU. */
  setMemoryFeatures: (features: readonly string[] | undefined) => void;
  /** Moves the cell to `failed`, unless it is stopping or has failed already. */
  fail: (error: unknown) => void;
  /** Called when the entrypoint of the current sandbox has exited. */
  onEntrypointExit: (exitCode: number) => void;
}
