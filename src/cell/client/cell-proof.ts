import {
  createPrivateKey,
  createPublicKey,
  generateKeyPairSync,
  type KeyObject,
  randomBytes,
  sign,
  verify,
} from "node:crypto";
import { on, once } from "node:events";
import { Agent, type ClientRequestArgs } from "node:http";
import { connect, type Socket } from "node:net";
import type { Duplex } from "node:stream";
import { cellPort } from "../../api/wire/cell-api.ts";
import { type Clock, onAbort } from "../../base/clock.ts";
import { RametError, textOfError } from "../../base/errors.ts";

/** The path and the headers with which a client asks a cell for a proof. The answer shows nothing but the public key. */
export const proofPath = "/v1/proof";
export const proofHeaders = { nonce: "ramet-nonce", key: "ramet-cell-key", proof: "ramet-cell-proof" } as const;

/** Signs proofs that a connection ends in the cell of one sandbox. */
export interface CellProver {
  /** base64url of the 32 bytes. */
  publicKey: string;
  /** @throws RametError `InvalidArgument` */
  prove: (nonce: string | undefined) => string;
}

/** Creates the key pair of a cell. The private half never leaves the process, so it ends with the sandbox. */
export function cellProver(sandboxUid: string): CellProver {
  const pair = generateKeyPairSync("ed25519", {
    privateKeyEncoding: { type: "pkcs8", format: "pem" },
    publicKeyEncoding: { type: "spki", format: "pem" },
  });
  const privateKey = createPrivateKey(pair.privateKey);
  const { x: publicKey = "" } = createPublicKey(pair.publicKey).export({ format: "jwk" });
  return {
    publicKey,
    prove(nonce) {
      if (nonce === undefined || !/^[\w-]{22,64}$/.test(nonce))
        throw new RametError("InvalidArgument", `cell: the header ${proofHeaders.nonce} is missing or invalid`);
      return sign(null, proofText(sandboxUid, nonce), privateKey).toString("base64url");
    },
  };
}

/** The prefix keeps the signature from meaning anything else. */
function proofText(sandboxUid: string, nonce: string): Buffer {
  return Buffer.from(`ramet cell proof 1\n${sandboxUid}\n${nonce}`);
}

export interface CellPeer {
  ip: string;
  sandboxUid: string;
  /** The public key of the cell; absent: every answer is accepted. */
  cellKey?: string | undefined;
}

/** A cell is on the same network: one that does not accept a connection within this time does not exist. */
const connectMilliseconds = 2_000;
/** A cell that prepares many sandboxes may be slow. */
const proofMilliseconds = 10_000;
const proofLimitBytes = 4096;
/** How long a connection on which a key was learned waits for its request, which follows the check of the Pod. */
const learnedMilliseconds = 5_000;

/**
 * Opens a connection on which the cell has proven itself, so that the token, the body and all that follows reach only the cell.
 * @throws RametError `Unavailable` (retryable), `CellNotProven`, `Canceled`
 */
export async function connectToCell(peer: CellPeer, clock: Clock, signal?: AbortSignal): Promise<Socket> {
  const { cellKey } = peer;
  return withSocket({ ip: peer.ip, clock, signal }, async (socket) => {
    if (cellKey === undefined) return socket;
    if ((await askForProof(socket, peer, clock)) === cellKey) return socket;
    throw notProven(peer, "it has another key");
  });
}

/** Connections of one pool, each of which is proven once, when it is opened. */
export class CellAgent extends Agent {
  readonly #clock: Clock;
  /** By the name of the connection: one on which the key of its cell was learned, for the next request. */
  readonly #learned = new Map<string, Socket>();

  constructor(clock: Clock) {
    super({ keepAlive: true, maxFreeSockets: 64 });
    this.#clock = clock;
  }

  /**
   * Returns the key of the cell at an address. The caller must check that the address belongs to the sandbox's Pod, after this
   * has returned. A request to this cell that follows shortly uses the same connection, on which the cell has proven to have the
   * key.
   * @throws RametError as `connectToCell`
   */
  async learnKey(peer: CellPeer, signal?: AbortSignal): Promise<string> {
    return withSocket({ ip: peer.ip, clock: this.#clock, signal }, async (socket) => {
      const cellKey = await askForProof(socket, peer, this.#clock);
      this.#keep(socket, { ...peer, cellKey });
      return cellKey;
    });
  }

  #keep(socket: Socket, peer: CellPeer): void {
    const name = this.#nameOf(peer);
    this.#learned.get(name)?.destroy();
    this.#learned.set(name, socket);
    const cancel = this.#clock.schedule(learnedMilliseconds, () => {
      if (this.#learned.get(name) === socket) socket.destroy();
    });
    socket.once("close", () => {
      cancel();
      if (this.#learned.get(name) === socket) this.#learned.delete(name);
    });
  }

  #takeLearned(peer: CellPeer): Socket | undefined {
    const name = this.#nameOf(peer);
    const socket = this.#learned.get(name);
    this.#learned.delete(name);
    return socket?.writable === true && socket.readable ? socket : undefined;
  }

  #nameOf({ ip, sandboxUid, cellKey = "" }: CellPeer): string {
    return `${ip}:${sandboxUid}:${cellKey}`;
  }

  override destroy(): void {
    for (const socket of this.#learned.values()) socket.destroy();
    super.destroy();
  }

  override createConnection(
    options: ClientRequestArgs,
    done?: (error: Error | null, stream: Duplex) => void,
  ): undefined {
    const { peer, callSignal } = options as ClientRequestArgs & CellCallOptions;
    const learned = this.#takeLearned(peer);
    if (learned !== undefined) {
      done?.(null, learned);
      return;
    }
    connectToCell(peer, this.#clock, callSignal).then(
      (socket) => done?.(null, socket),
      // Node passes no stream with an error.
      (error: unknown) => (done as ((error: Error) => void) | undefined)?.(RametError.from(error)),
    );
  }

  /** A connection is reused only for the cell that has proven itself on it. */
  override getName(options?: ClientRequestArgs): string {
    const { sandboxUid, cellKey = "" } = (options as CellCallOptions).peer;
    return `${super.getName(options)}:${sandboxUid}:${cellKey}`;
  }
}

/** The additions of a request to Node's options. */
export interface CellCallOptions {
  peer: CellPeer;
  callSignal?: AbortSignal | undefined;
}

interface Opening {
  ip: string;
  clock: Clock;
  signal: AbortSignal | undefined;
}

/** Opens a socket, which `signal` closes until `use` has returned. It is closed if `use` fails. */
async function withSocket<T>({ ip, clock, signal }: Opening, use: (socket: Socket) => Promise<T>): Promise<T> {
  const socket = connect({ host: ip, port: cellPort, noDelay: true });
  // Stays: until the request listens, an error must not count as unhandled.
  socket.on("error", () => undefined);
  const stop = signal && onAbort(signal, () => socket.destroy(new Error("the call was aborted")));
  try {
    await connected(socket, ip, clock);
    return await use(socket);
  } catch (error) {
    socket.destroy();
    if (signal?.aborted !== true) throw error;
    throw new RametError("Canceled", `the call to the cell at ${ip} was aborted by the caller`, { cause: error });
  } finally {
    stop?.();
  }
}

async function connected(socket: Socket, ip: string, clock: Clock): Promise<void> {
  const cancel = clock.schedule(connectMilliseconds, () => {
    socket.destroy(new Error(`no connection within ${connectMilliseconds / 1000} s`));
  });
  try {
    await once(socket, "connect");
  } catch (error) {
    throw unavailable(ip, textOfError(error), error);
  } finally {
    cancel();
  }
}

/** Returns the key of the process at the other end, which has proven to have it for this sandbox. */
async function askForProof(socket: Socket, peer: CellPeer, clock: Clock): Promise<string> {
  const nonce = randomBytes(24).toString("base64url");
  socket.write(`GET ${proofPath} HTTP/1.1\r\nHost: cell\r\n${proofHeaders.nonce}: ${nonce}\r\n\r\n`);
  const head = await readHead(socket, peer, clock);
  const header = (name: string) => new RegExp(`^${name}: ([\\w-]+)\r$`, "im").exec(head)?.[1];
  const [key, proof] = [header(proofHeaders.key), header(proofHeaders.proof)];
  if (key === undefined || proof === undefined) throw notProven(peer, "it gave no proof");
  const text = proofText(peer.sandboxUid, nonce);
  if (!verify(null, text, publicKeyObject(peer, key), Buffer.from(proof, "base64url")))
    throw notProven(peer, "its signature is wrong");
  return key;
}

function publicKeyObject(peer: CellPeer, x: string): KeyObject {
  try {
    return createPublicKey({ key: { kty: "OKP", crv: "Ed25519", x }, format: "jwk" });
  } catch {
    throw notProven(peer, "its key is invalid");
  }
}

/** Reads the head of the response, which has no body if it is a proof. */
async function readHead(socket: Socket, peer: CellPeer, clock: Clock): Promise<string> {
  let head = "";
  const cancel = clock.schedule(proofMilliseconds, () => {
    socket.destroy(new Error(`no proof within ${proofMilliseconds / 1000} s`));
  });
  try {
    for await (const [chunk] of on(socket, "data", { close: ["close"] }) as AsyncIterable<[Buffer]>) {
      head += chunk.toString("latin1");
      if (head.includes("\r\n\r\n")) return head;
      if (head.length > proofLimitBytes) throw notProven(peer, "its answer is too long");
    }
  } catch (error) {
    throw error instanceof RametError ? error : unavailable(peer.ip, textOfError(error), error);
  } finally {
    cancel();
  }
  throw unavailable(peer.ip, "the connection was closed");
}

function notProven({ ip, sandboxUid }: CellPeer, why: string): RametError {
  return new RametError(
    "CellNotProven",
    `the process at ${ip} did not prove that it is the cell of the sandbox ${sandboxUid}: ${why}`,
    { retryable: true, hint: "Check whether another Pod has this address: kubectl get pods -A -o wide" },
  );
}

function unavailable(ip: string, why: string, cause?: unknown): RametError {
  return new RametError("Unavailable", `cannot reach the cell at ${ip}: ${why}`, { retryable: true, cause });
}
