import type { ApiKeyLimits } from "../../../api/keys/api-key-rules.ts";
import type { Sandbox } from "../../../api/kinds/sandbox.ts";
import type { GuestClient } from "../../../cell/client/guest-client.ts";
import type { Need } from "../../keys/callers.ts";

/** Who calls tools: the user of a kubeconfig, or a client with an API key. */
export interface Actor {
  namespace: string;
  /** Whom created sandboxes belong to, in the annotation `owner`. */
  owner: string;
  /** @throws RametError `Forbidden` */
  require(...needs: readonly Need[]): Promise<void>;
  /** @default none */
  limits?: ApiKeyLimits;
  /** A client of the sandbox's guest. @throws RametError such as `Forbidden` or `SandboxNotReady` */
  guest(sandbox: Sandbox, options: GuestOptions): Promise<GuestClient>;
}

export interface GuestOptions {
  /** @default the entrypoint's user */
  user?: string | undefined;
  signal: AbortSignal;
}
