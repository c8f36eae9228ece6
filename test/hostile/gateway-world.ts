import { randomUUID } from "node:crypto";
import { once } from "node:events";
import { createServer, type Server } from "node:http";
import { connect, type Socket } from "node:net";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import type { Duplex } from "node:stream";
import { request } from "undici";
import { cellPort } from "../../src/api/wire/cell-api.ts";
import {
  gatewayKeySecret,
  guestKeySecret,
  guestSecretEntry,
  privateKeyEntry,
  systemNamespace,
} from "../../src/api/names/system-names.ts";
import { systemClock } from "../../src/base/clock.ts";
import { newCellKeyPem } from "../../src/cell/client/cell-token.ts";
import { sandboxResources } from "../../src/controllers/cluster/resources.ts";
import { KubeClient } from "../../src/kube/kube-client.ts";
import { coreResources } from "../../src/kube/resource-ref.ts";
import { startChild, type Child, waitUntilReady } from "../../src/local/control-plane/child.ts";
import { addressBlock } from "../setup/address-block.ts";
import { builtPrograms } from "../setup/built-package.ts";
import { openControlPlane, type TestControlPlane } from "../setup/control-plane.ts";
import { freePort } from "../setup/free-port.ts";
import { makeNamespace } from "../setup/namespace.ts";
import { serviceAccounts } from "../setup/service-accounts.ts";

export const namespace = "t";

/** A program in a sandbox, which gets a connection to one of its ports. */
export type SandboxProgram = (connection: Duplex, port: number) => void;

interface SandboxOptions {
  /** The annotation's value, or the ports. */
  publicPorts?: string | readonly number[];
  inNamespace?: string;
  /** Paused, and traffic resumes it. */
  isPaused?: boolean;
}

/**
 * The built `ramet gateway` on a real API server. The sandboxes are objects without a controller, and stand-in cells connect
 * each port directly to a function of the test, so this does not prove anything about cells.
 */
export class GatewayWorld {
  readonly client: KubeClient;
  readonly #plane: TestControlPlane;
  readonly #cells: Server[] = [];
  readonly #streams = new Set<Duplex>();
  /** The addresses of the stand-in cells, by the key of the sandbox. */
  readonly #addresses = new Map<string, string>();

  private constructor(plane: TestControlPlane) {
    this.#plane = plane;
    this.client = new KubeClient(plane.connection);
  }

  static async open(): Promise<GatewayWorld> {
    const world = new GatewayWorld(await openControlPlane());
    const { client } = world;
    await makeNamespace(client, namespace);
    await makeNamespace(client, systemNamespace);
    const data = { [privateKeyEntry]: Buffer.from(newCellKeyPem()).toString("base64") };
    const metadata = { name: gatewayKeySecret, namespace: systemNamespace };
    await client.resource(coreResources.secrets).create({ apiVersion: "v1", kind: "Secret", metadata, data });
    return world;
  }

  /** The administrator's connection. */
  get connection(): TestControlPlane["connection"] {
    return this.#plane.connection;
  }

  async uidOf(sandbox: string): Promise<string> {
    const { metadata } = await this.client.resource(sandboxResources.sandboxes).get({ namespace, name: sandbox });
    return metadata.uid;
  }

  async deleteAccount(account: { namespace: string; name: string }): Promise<void> {
    await this.client.resource(serviceAccounts).delete(account);
  }

  /** Starts a gateway process. @param environment variables of the process */
  startGateway(args: string[] = [], environment: Record<string, string> = {}): Promise<GatewayProcess> {
    return this.#startServer("gateway", args, environment);
  }

  /** Starts a process of the client API. @param gateway through which it reaches sandboxes @default there is none */
  async startClientApi(gateway = "http://127.0.0.1:1"): Promise<GatewayProcess> {
    const data = { [guestSecretEntry]: Buffer.alloc(32).toString("base64") };
    const metadata = { name: guestKeySecret, namespace: systemNamespace };
    await this.client.resource(coreResources.secrets).create({ apiVersion: "v1", kind: "Secret", metadata, data });
    return this.#startServer("client-api", ["--gateway", gateway], {});
  }

  async #startServer(
    server: "gateway" | "client-api",
    args: string[],
    environment: Record<string, string>,
  ): Promise<GatewayProcess> {
    const [port, metricsPort] = [await freePort(), await freePort()];
    const logPath = join(this.#plane.dir, `${server}-${randomUUID()}.log`);
    const [program, ...before] = builtPrograms.part;
    const ports = ["--port", String(port), "--metrics-port", String(metricsPort)];
    const child = await startChild({
      program,
      args: [...before, server, "--kubeconfig", this.#plane.kubeconfigPath, ...ports, ...args],
      cwd: this.#plane.dir,
      environment,
      logPath,
      clock: systemClock,
    });
    const ready = async (): Promise<boolean> => {
      const answer = await request(`http://127.0.0.1:${metricsPort}/readyz`).catch(() => undefined);
      await answer?.body.dump();
      return answer?.statusCode === 200;
    };
    await waitUntilReady(child, { what: `the ${server}`, clock: systemClock, timeoutMilliseconds: 60_000, ready });
    return new GatewayProcess(child, { port, metricsPort, logPath });
  }

  /** Creates a ready or paused sandbox whose `publicPorts` require no token. */
  async sandbox(
    name: string,
    program: SandboxProgram,
    { publicPorts = [], inNamespace = namespace, isPaused = false }: SandboxOptions = {},
  ): Promise<void> {
    const ip = `127.72.${addressBlock()}.${this.#cells.length + 1}`;
    await this.#serveCell(ip, program);
    const metadata = {
      name,
      namespace: inNamespace,
      annotations: {
        "ramet.dev/public-ports": publicPorts.toString(),
        ...(isPaused && { "ramet.dev/auto-resume": "300s" }),
      },
    };
    const template = { spec: { containers: [{ name: "main", image: "none" }] } };
    const sandboxes = this.client.resource(sandboxResources.sandboxes);
    const spec = { template, paused: isPaused };
    await sandboxes.create({ apiVersion: "agents.kruise.io/v1alpha1", kind: "Sandbox", metadata, spec });
    await this.#setState(metadata, isPaused ? "Paused" : "Running", ip);
    this.#addresses.set(`${inNamespace}/${name}`, ip);
  }

  /** Stands in for the client API and the controllers, which resume a paused sandbox. */
  async resume(name: string, inNamespace = namespace): Promise<void> {
    const at = { name, namespace: inNamespace };
    await this.client.resource(sandboxResources.sandboxes).mergePatch(at, { spec: { paused: false } });
    await this.#setState(at, "Running", this.#addresses.get(`${inNamespace}/${name}`) ?? "");
  }

  /** Stands in for the controllers, which continue a running sandbox in another Pod. */
  async move(name: string, ramet: object): Promise<void> {
    await this.#setState({ name, namespace }, "Resuming", "", ramet);
  }

  async #setState(
    at: { namespace: string; name: string },
    phase: "Running" | "Paused" | "Resuming",
    ip: string,
    ramet: object | null = null,
  ): Promise<void> {
    const lastTransitionTime = new Date().toISOString();
    const isReady = phase === "Running" ? "True" : "False";
    const ready = { type: "Ready", status: isReady, reason: "PodReady", message: "", lastTransitionTime };
    const status = { phase, sandboxIp: ip, conditions: [ready], ramet };
    await this.client.resource(sandboxResources.sandboxes).mergePatch(at, { status }, { subresource: "status" });
  }

  async close(): Promise<void> {
    for (const stream of this.#streams) stream.destroy();
    for (const cell of this.#cells) {
      cell.closeAllConnections();
      cell.close();
    }
    await this.client.close();
    await this.#plane.stop();
  }

  async #serveCell(ip: string, program: SandboxProgram): Promise<void> {
    const cell = createServer().on("upgrade", ({ url = "" }, stream) => {
      this.#streams.add(stream);
      stream.on("error", () => stream.destroy()).once("close", () => this.#streams.delete(stream));
      stream.write("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: tcp\r\n\r\n");
      program(stream, Number(url.split("/").at(-1)));
    });
    cell.listen(cellPort, ip);
    await once(cell, "listening");
    this.#cells.push(cell);
  }
}

/** A running `ramet gateway` or `ramet client-api`. */
export class GatewayProcess {
  readonly child: Child;
  readonly port: number;
  readonly #metricsPort: number;
  readonly #logPath: string;

  constructor(child: Child, at: { port: number; metricsPort: number; logPath: string }) {
    this.child = child;
    this.port = at.port;
    this.#metricsPort = at.metricsPort;
    this.#logPath = at.logPath;
  }

  log(): Promise<string> {
    return readFile(this.#logPath, "utf8");
  }

  /** The value of a metric, 0 if it has none. @param series the name with its labels, as in the metrics page */
  async metric(series: string): Promise<number> {
    const { body } = await request(`http://127.0.0.1:${this.#metricsPort}/metrics`);
    const line = (await body.text()).split("\n").find((each) => each.startsWith(`${series} `));
    return Number(line?.split(" ").at(-1) ?? 0);
  }

  /** How many tokens the API server was asked about. */
  async reviews(): Promise<number> {
    const { body } = await request(`http://127.0.0.1:${this.#metricsPort}/metrics`);
    const lines = (await body.text())
      .split("\n")
      .filter((each) => /^ramet_api_requests_total.*"tokenreviews"/.test(each));
    return lines.reduce((sum, line) => sum + Number(line.split(" ").at(-1)), 0);
  }

  /** Opens a connection. @param localAddress the address of the client @default 127.0.0.1 */
  async connect(localAddress = "127.0.0.1"): Promise<RawConnection> {
    const socket = connect({ port: this.port, host: "127.0.0.1", localAddress });
    const connection = new RawConnection(socket);
    await once(socket, "connect");
    return connection;
  }

  /** Sends these bytes on a connection of their own. @returns what the gateway answered until it closed the connection */
  async exchange(bytes: string, localAddress?: string): Promise<string> {
    const connection = await this.connect(localAddress);
    connection.socket.write(bytes, "latin1");
    await connection.closed;
    return connection.received;
  }
}

/** A TCP connection whose incoming bytes are collected. */
export class RawConnection {
  readonly socket: Socket;
  /** Resolves when the connection has ended for any reason. */
  readonly closed: Promise<void>;
  received = "";

  constructor(socket: Socket) {
    this.socket = socket;
    this.closed = new Promise((resolve) => {
      socket.once("close", () => {
        resolve();
      });
    });
    socket.on("error", () => undefined).on("data", (bytes: Buffer) => (this.received += bytes.toString("latin1")));
  }

  /** Resolves when the connection has received this text. */
  async until(text: string): Promise<void> {
    while (!this.received.includes(text)) {
      if (this.socket.closed) throw new Error(`the connection was closed after ${JSON.stringify(this.received)}`);
      await Promise.race([once(this.socket, "data"), this.closed]);
    }
  }
}

/** The head of a request to a sandbox port. */
export function head(sandbox: string, port: number, more: readonly string[] = [], inNamespace = namespace): string {
  const to = [`E2b-Sandbox-Id: ${inNamespace}--${sandbox}`, `E2b-Sandbox-Port: ${port}`];
  return ["GET / HTTP/1.1", "Host: gateway", ...to, ...more, "", ""].join("\r\n");
}

export const upgrade: readonly string[] = ["Connection: Upgrade", "Upgrade: websocket"];
