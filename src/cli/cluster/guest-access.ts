import type { IncomingMessage } from "node:http";
import type { Duplex } from "node:stream";
import type { Sandbox } from "../../api/kinds/sandbox.ts";
import { cellKeySecret, guestKeySecret, systemNamespace } from "../../api/names/system-names.ts";
import { group } from "../../api/schema/kind.ts";
import { isServing, sandboxState } from "../../api/state/sandbox.ts";
import { guestClientPort } from "../../api/wire/cell-api.ts";
import { type CellCredentials, readClusterCredentials } from "../../backends/cluster-keys.ts";
import { RametError } from "../../base/errors.ts";
import { CellClient } from "../../cell/client/cell-client.ts";
import {
  type GatewayOptions,
  type Transport,
  gatewayGuest,
  gatewayLog,
  gatewayPort,
} from "../../cell/client/gateway-guest.ts";
import { GuestClient, containerUser } from "../../cell/client/guest-client.ts";
import { describeState, findCondition } from "../../kube/conditions.ts";
import { causeOfLoss } from "../../operations/cause-of-loss.ts";
import type { Io } from "../io.ts";
import type { Cluster } from "./cluster.ts";
import { type AccessFlags, gatewayCredentials } from "./gateway-credentials.ts";
import { clusterObjects } from "./objects.ts";

export interface GuestAccess {
  sandbox: string;
  flags: AccessFlags;
  /** The user who runs commands and owns files. @default the entrypoint's user */
  user?: string | undefined;
  /** @default that of the command */
  signal?: AbortSignal;
}

/**
 * Runs `use` with a client of a sandbox's guest: through the gateway, where the user needs the verb `create` on
 * `sandboxes/exec`, or directly with the keys of the controllers if the user asks for that.
 *
 * @throws RametError `NotFound`, `SandboxNotReady`, `Forbidden`, `Unauthorized`, `Unavailable`; why the sandbox ended meanwhile
 */
export async function withGuest<T>(
  io: Io,
  cluster: Cluster,
  access: GuestAccess,
  use: (guest: GuestClient) => Promise<T>,
): Promise<T> {
  const { user } = access;
  return enter(io, cluster, access, {
    directly: (sandbox, signal) => withCellGuest(cluster, sandbox, { user, signal }, use),
    throughGateway: async (options) => {
      const guest = await gatewayGuest({ ...options, user });
      try {
        return await use(guest);
      } catch (error) {
        throw RametError.from(error).code === "Unauthorized" ? withoutRight(cluster.namespace, error) : error;
      }
    },
  });
}

/**
 * Opens the log of a sandbox's entrypoint through the gateway.
 * @param query the options of `kubectl logs`
 * @returns undefined if the sandbox is not running, or the user asks for a direct connection: its Pod then has the log
 * @throws RametError as `withGuest`
 */
export async function sandboxLog(
  io: Io,
  cluster: Cluster,
  access: GuestAccess,
  query: URLSearchParams,
): Promise<IncomingMessage | undefined> {
  if (access.flags.direct === true) return undefined;
  const sandbox = await findSandbox(cluster, access.sandbox, false);
  if (sandbox !== undefined && !isServing(sandbox)) return undefined;
  return gatewayLog(await gatewayOptions(io, cluster, access, sandbox), query);
}

export interface PortAccess {
  /** A raw stream to the port; undefined: only HTTP passes, by `http`. */
  dial?: (port: number) => Promise<Duplex>;
  http?: (port: number) => Transport;
}

/**
 * Runs `use` with access to the ports of a sandbox, through the gateway, or to their raw streams with `--direct`.
 *
 * @throws RametError as `withGuest`
 */
export async function withPorts<T>(
  io: Io,
  cluster: Cluster,
  access: GuestAccess,
  use: (access: PortAccess) => Promise<T>,
): Promise<T> {
  return enter(io, cluster, access, {
    directly: (sandbox, signal) => withCell(cluster, sandbox, signal, ({ dial }) => use({ dial })),
    throughGateway: (options) => use({ http: (port) => gatewayPort(options, port) }),
  });
}

interface Ways<T> {
  directly: (sandbox: Sandbox, signal: AbortSignal) => Promise<T>;
  throughGateway: (options: GatewayOptions) => Promise<T>;
}

async function enter<T>(io: Io, cluster: Cluster, access: GuestAccess, ways: Ways<T>): Promise<T> {
  const { sandbox: name, flags, signal = io.signal } = access;
  const sandbox = await findSandbox(cluster, name, flags.direct === true);
  if (sandbox === undefined) return ways.throughGateway(await gatewayOptions(io, cluster, access, undefined));
  checkReady(sandbox);
  try {
    if (flags.direct === true) return await ways.directly(sandbox, signal);
    return await ways.throughGateway(await gatewayOptions(io, cluster, access, sandbox));
  } catch (error) {
    throw await causeOfLoss(clusterObjects(io, cluster), sandbox, error, signal);
  }
}

async function gatewayOptions(
  io: Io,
  cluster: Cluster,
  { sandbox: name, flags, signal = io.signal }: GuestAccess,
  sandbox: Sandbox | undefined,
): Promise<GatewayOptions> {
  const gateway = await gatewayCredentials(io, cluster, flags);
  const sandboxId = idOf(cluster.namespace, name, sandbox?.metadata.uid);
  return { gateway, sandboxId, isKnownReady: sandbox !== undefined, clock: io.clock, signal };
}

/** A user can enter sandboxes without the right to read them. The gateway then reports what is wrong. */
async function findSandbox(cluster: Cluster, name: string, isRequired: boolean): Promise<Sandbox | undefined> {
  try {
    return await cluster.get(cluster.sandboxes, name);
  } catch (error) {
    // A token for gateways only is none for the API server.
    const isRefused = ["Forbidden", "Unauthorized"].includes(RametError.from(error).code);
    if (!isRequired && isRefused) return undefined;
    throw error;
  }
}

/** The name, with which a refusal can be explained; the UID if the gateway could split the name in two ways. */
function idOf(namespace: string, name: string, uid: string | undefined): string {
  const isAmbiguous = namespace.includes("--") || name.includes("--");
  if (isAmbiguous && uid === undefined) {
    throw new RametError(
      "Forbidden",
      `Cannot enter the sandbox ${name}: gateways find names with -- by their UID only`,
      { hint: `Ask for the verb get on sandboxes in namespace ${namespace}` },
    );
  }
  return isAmbiguous && uid !== undefined ? uid : `${namespace}--${name}`;
}

/** The guest refused the call, because the gateway did not send its token. */
function withoutRight(namespace: string, cause: unknown): RametError {
  const { message } = RametError.from(cause);
  return new RametError("Forbidden", `Cannot enter the sandbox: ${message}`, {
    hint: `Ask for the verb create on sandboxes/exec in the API group ${group} in namespace ${namespace}; a gateway with --no-exec lets nobody enter`,
    cause,
  });
}

/**
 * Runs `use` with a client of the sandbox's guest, which it reaches through the cell and without a gateway. This is for operators:
 * it needs a connection to the sandbox's Pod, and permission to read the Secrets with the keys of the cluster's cells and guests.
 *
 * @throws RametError `Forbidden` without that permission, `SandboxNotReady` if the sandbox is not running
 */
export async function withCellGuest<T>(
  cluster: Cluster,
  sandbox: Sandbox,
  { user = containerUser, signal }: { user?: string | undefined; signal: AbortSignal },
  use: (guest: GuestClient) => Promise<T>,
): Promise<T> {
  return withCell(cluster, sandbox, signal, ({ dial, accessToken }) =>
    use(new GuestClient({ dial: (call) => dial(guestClientPort, call), accessToken, user })),
  );
}

interface CellAccess {
  /** Opens a raw stream to a port of the sandbox. */
  dial: (port: number, signal?: AbortSignal) => Promise<Duplex>;
  accessToken: string;
}

async function withCell<T>(
  cluster: Cluster,
  sandbox: Sandbox,
  signal: AbortSignal,
  use: (access: CellAccess) => Promise<T>,
): Promise<T> {
  const { uid } = sandbox.metadata;
  const ip = checkReady(sandbox);
  const credentials = await readCredentials(cluster, signal);
  const cells = new CellClient(credentials.key);
  const at = { ip, sandboxUid: uid, cellKey: sandbox.status?.ramet?.cellKey };
  try {
    const dial: CellAccess["dial"] = (port, call) => cells.dial(at, port, call ?? signal);
    return await use({ dial, accessToken: credentials.guestToken(uid) });
  } finally {
    cells.close();
  }
}

/** Returns the address of the sandbox's Pod. @throws RametError `SandboxNotReady` */
function checkReady(sandbox: Sandbox): string {
  const { metadata, status } = sandbox;
  const { name, namespace } = metadata;
  const ip = status?.sandboxIp ?? status?.podInfo?.podIP;
  if (ip !== undefined && isServing(sandbox)) return ip;
  throw new RametError("SandboxNotReady", `The sandbox ${name} is ${unreadiness(sandbox)}`, {
    hint:
      status?.phase === "Paused"
        ? `Resume it with: ramet sandbox resume ${name} -n ${namespace}`
        : `Find out why with: ramet explain sandbox/${name} -n ${namespace}`,
  });
}

function unreadiness(sandbox: Sandbox): string {
  const { status } = sandbox;
  if (sandboxState(sandbox).is !== "degraded") return `not running: it is ${describeState({ status })}`;
  const why = findCondition(status?.conditions, "Ready")?.message ?? "";
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
