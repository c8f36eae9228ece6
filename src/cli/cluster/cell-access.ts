import { guestClientPort } from "../../api/cell/cell-api.ts";
import { RametError } from "../../base/errors.ts";
import type { Sandbox } from "../../api/kinds/sandbox.ts";
import { credentialsSecret, systemNamespace } from "../../api/names/system-names.ts";
import type { CellCredentials } from "../../backends/cell-credentials.ts";
import { readClusterCredentials } from "../../backends/cell-keys.ts";
import { CellClient } from "../../cell/client/cell-client.ts";
import { GuestClient } from "../../cell/client/guest-client.ts";
import { isConditionTrue } from "../../kube/conditions.ts";
import type { Cluster } from "./cluster.ts";

export interface GuestAccessOptions {
  /** Whom commands and files are for. @default the entrypoint's user */
  user?: string | undefined;
  signal: AbortSignal;
}

/**
 * Runs `use` with a client of the sandbox's guest, reached through its cell. Whoever may read the Secret with the
 * cluster's cell key may do that, and nobody else.
 *
 * @throws RametError `Forbidden` without that right, `SandboxNotReady` when the sandbox does not run
 */
export async function withGuest<T>(
  cluster: Cluster,
  sandbox: Sandbox,
  options: GuestAccessOptions,
  use: (guest: GuestClient) => Promise<T>,
): Promise<T> {
  const { name, uid } = sandbox.metadata;
  const ip = sandbox.status?.sandboxIp ?? sandbox.status?.podInfo?.podIP;
  if (ip === undefined || !isConditionTrue(sandbox.status?.conditions, "Ready")) {
    throw new RametError("SandboxNotReady", `The sandbox ${name} does not run: it is ${phaseOf(sandbox)}`, {
      hint: `See why with: ramet sandbox get ${name} -o yaml`,
    });
  }
  const credentials = await readCredentials(cluster, options.signal);
  const cells = new CellClient(credentials.key);
  try {
    return await use(
      new GuestClient({
        dial: () => cells.dial({ ip, sandboxUid: uid }, guestClientPort),
        accessToken: credentials.guestToken(uid),
        ...(options.user === undefined ? {} : { user: options.user }),
      }),
    );
  } finally {
    cells.close();
  }
}

function phaseOf({ status }: Sandbox): string {
  const phase = status?.phase ?? "not seen by a controller yet";
  return phase === "Running" ? "Running and not ready" : phase;
}

async function readCredentials({ client }: Cluster, signal: AbortSignal): Promise<CellCredentials> {
  try {
    return await readClusterCredentials(client, signal);
  } catch (error) {
    throw explained(RametError.from(error));
  }
}

function explained(error: RametError): RametError {
  const secret = `the Secret ${credentialsSecret} in namespace ${systemNamespace}`;
  if (error.code === "Forbidden") {
    return new RametError("Forbidden", `You may not enter sandboxes: ${error.message}`, {
      hint: `Whoever may read ${secret} may enter every sandbox of the cluster; ask its administrator for that right.`,
      cause: error,
    });
  }
  if (error.code === "NotFound") {
    return new RametError("Unavailable", `Sandboxes cannot be entered: ${secret} does not exist`, {
      hint: "The controller makes it when it starts: see that it runs.",
      cause: error,
    });
  }
  return error;
}
