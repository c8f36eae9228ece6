import { isServing } from "../../api/state/sandbox.ts";
import type { Duplex } from "node:stream";
import { guestClientPort } from "../../api/wire/cell-api.ts";
import { RametError } from "../../base/errors.ts";
import type { Sandbox } from "../../api/kinds/sandbox.ts";
import { cellKeySecret, guestKeySecret, systemNamespace } from "../../api/names/system-names.ts";
import type { CellCredentials } from "../../backends/cell-credentials.ts";
import { readClusterCredentials } from "../../backends/cell-keys.ts";
import { CellClient } from "../../cell/client/cell-client.ts";
import { containerUser, GuestClient } from "../../cell/client/guest-client.ts";
import { findCondition } from "../../kube/conditions.ts";
import { describeState } from "../../kube/reported-state.ts";
import type { Cluster } from "./cluster.ts";

export interface CellAccessOptions {
  /** The user who runs commands and owns files. @default the entrypoint's user */
  user?: string | undefined;
  signal: AbortSignal;
}

/**
 * Runs `use` with a client of the sandbox's guest, which it reaches through the cell and without a gateway. This is for operators:
 * it needs a connection to the sandbox's Pod, and permission to read the
 * Secrets with the keys of the cluster's cells and guests.
 *
 * @throws RametError `Forbidden` without that permission, `SandboxNotReady` if the sandbox is not running
 */
export async function withCellGuest<T>(
  cluster: Cluster,
  sandbox: Sandbox,
  options: CellAccessOptions,
  use: (guest: GuestClient) => Promise<T>,
): Promise<T> {
  const { uid } = sandbox.metadata;
  const ip = checkReady(sandbox);
  const credentials = await readCredentials(cluster, options.signal);
  const cells = new CellClient(credentials.key);
  try {
    return await use(
      new GuestClient({
        dial: () => cells.dial({ ip, sandboxUid: uid, cellKey: sandbox.status?.ramet?.cellKey }, guestClientPort),
        accessToken: credentials.guestToken(uid),
        user: options.user ?? containerUser,
      }),
    );
  } finally {
    cells.close();
  }
}

/** Runs `use` with a function that opens a raw stream to a port of the sandbox, through the cell. @throws as `withCellGuest` */
export async function withCellPorts<T>(
  cluster: Cluster,
  sandbox: Sandbox,
  signal: AbortSignal,
  use: (dial: (port: number) => Promise<Duplex>) => Promise<T>,
): Promise<T> {
  const { uid } = sandbox.metadata;
  const ip = checkReady(sandbox);
  const cells = new CellClient((await readCredentials(cluster, signal)).key);
  try {
    return await use((port) => cells.dial({ ip, sandboxUid: uid, cellKey: sandbox.status?.ramet?.cellKey }, port));
  } finally {
    cells.close();
  }
}

/** Returns the address of the sandbox's Pod. @throws RametError `SandboxNotReady` */
export function checkReady(sandbox: Sandbox): string {
  const { metadata, status } = sandbox;
  const { name, namespace } = metadata;
  const ip = status?.sandboxIp ?? status?.podInfo?.podIP;
  if (ip !== undefined && isServing(sandbox)) return ip;
  throw new RametError("SandboxNotReady", `The sandbox ${name} is ${unreadiness(status)}`, {
    hint: `Find out why with: ramet explain sandbox/${name} -n ${namespace}`,
  });
}

function unreadiness(status: Sandbox["status"]): string {
  if (status?.phase !== "Running") return `not running: it is ${describeState({ status })}`;
  const why = findCondition(status.conditions, "Ready")?.message ?? "";
  return why === "" ? "not ready" : `not ready: ${why}`;
}

async function readCredentials({ client }: Cluster, signal: AbortSignal): Promise<CellCredentials> {
  try {
    return await readClusterCredentials(client, signal);
  } catch (error) {
    throw explained(RametError.from(error));
  }
}

function explained(error: RametError): RametError {
  const secrets = `the Secrets ${cellKeySecret} and ${guestKeySecret} in namespace ${systemNamespace}`;
  if (error.code === "Forbidden") {
    return new RametError("Forbidden", `Cannot enter the sandbox: ${error.message}`, {
      hint: `Only operators need --direct, which reads ${secrets}; enter the sandbox through the gateway, without the flag`,
      cause: error,
    });
  }
  if (error.code === "NotFound") {
    return new RametError("Unavailable", `Cannot enter the sandbox: ${secrets} do not exist`, {
      hint: "Check that the controller runs: it creates the Secrets when it starts",
      cause: error,
    });
  }
  return error;
}
