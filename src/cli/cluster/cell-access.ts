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
  /** The user who runs commands and owns files. @default the entrypoint's user */
  user?: string | undefined;
  signal: AbortSignal;
}

/**
 * Runs `use` with a client of the sandbox's guest, which it reaches through the cell. This needs permission to read the
 * Secret with the cluster's cell key.
 *
 * @throws RametError `Forbidden` without that permission, `SandboxNotReady` if the sandbox is not running
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
    throw new RametError("SandboxNotReady", `The sandbox ${name} is not running: it is ${phaseOf(sandbox)}`, {
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
  const phase = status?.phase ?? "not processed by a controller yet";
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
    return new RametError("Forbidden", `Cannot enter the sandbox: ${error.message}`, {
      hint: `Ask the cluster's administrator for permission to read ${secret}, which gives access to every sandbox`,
      cause: error,
    });
  }
  if (error.code === "NotFound") {
    return new RametError("Unavailable", `Cannot enter the sandbox: ${secret} does not exist`, {
      hint: "Check that the controller runs: it creates the Secret when it starts",
      cause: error,
    });
  }
  return error;
}
