import { readFile } from "node:fs/promises";
import type { Socket } from "node:net";
import { createServer, type Server, type TLSSocket } from "node:tls";
import type { Clock } from "../base/clock.ts";
import { RametError } from "../base/errors.ts";
import type { Log } from "../base/log.ts";

/** Paths of PEM files, such as those of a mounted Secret of the type kubernetes.io/tls. */
export interface TlsFiles {
  /** The certificate with its chain. */
  certificate: string;
  key: string;
  /** Whether the port also accepts connections without TLS. */
  isOptional?: boolean;
}

export interface TlsOptions {
  files: TlsFiles;
  clock: Clock;
  log: Log;
  onSecure: (socket: TLSSocket) => void;
}

/** How soon a renewed certificate takes effect. */
const readMilliseconds = 60_000;
const handshakeMilliseconds = 20_000;

/** Serves TLS on connections that another server has accepted. */
export class TlsClients {
  readonly #options: TlsOptions;
  readonly #server: Server;
  #pems: Pems;
  #stop: () => void = () => undefined;

  private constructor(options: TlsOptions, pems: Pems) {
    this.#options = options;
    this.#pems = pems;
    // Node selects HTTP/2 if the client offers both.
    const protocols = { ALPNProtocols: ["h2", "http/1.1"], handshakeTimeout: handshakeMilliseconds };
    this.#server = createServer({ ...pems, ...protocols })
      .on("secureConnection", options.onSecure)
      .on("tlsClientError", (_, socket) => socket.destroy());
    this.#readAgain();
  }

  /** @throws RametError `InvalidArgument` if the files cannot be read, or do not fit each other */
  static async open(options: TlsOptions): Promise<TlsClients> {
    try {
      return new TlsClients(options, await read(options.files));
    } catch (error) {
      throw unreadable(options.files, error);
    }
  }

  accept(socket: Socket): void {
    this.#server.emit("connection", socket);
  }

  close(): void {
    this.#stop();
  }

  #readAgain(): void {
    const { files, clock, log } = this.#options;
    this.#stop = clock.schedule(readMilliseconds, () => {
      void this.#renew()
        .catch((error: unknown) => {
          log.warn({ error: unreadable(files, error).describe() }, "the certificate was not renewed");
        })
        .finally(() => {
          this.#readAgain();
        });
    });
  }

  async #renew(): Promise<void> {
    const pems = await read(this.#options.files);
    if (pems.cert === this.#pems.cert && pems.key === this.#pems.key) return;
    this.#server.setSecureContext(pems);
    this.#pems = pems;
    this.#options.log.info({}, "the certificate was renewed");
  }
}

interface Pems {
  cert: string;
  key: string;
}

async function read({ certificate, key }: TlsFiles): Promise<Pems> {
  const [cert, privateKey] = await Promise.all([readFile(certificate, "utf8"), readFile(key, "utf8")]);
  return { cert, key: privateKey };
}

function unreadable({ certificate, key }: TlsFiles, error: unknown): RametError {
  const why = error instanceof Error ? error.message : String(error);
  return new RametError("InvalidArgument", `Using the certificate ${certificate} with the key ${key} failed: ${why}`, {
    cause: error,
    hint: "Check that both files are PEM, and that the key belongs to the certificate",
  });
}
