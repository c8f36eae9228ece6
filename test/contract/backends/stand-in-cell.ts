import { statusOf } from "../../../src/base/http.ts";
import { once } from "node:events";
import { readFile, writeFile } from "node:fs/promises";
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import { join } from "node:path";
import {
  BootRequest,
  cellPort,
  CheckpointRequest,
  EgressRequest,
  IdentityRequest,
  RestoreRequest,
  RestoreInPlaceCall,
  type CellConfig,
  type CellState,
  type CheckpointResult,
  type Identity,
} from "../../../src/api/wire/cell-api.ts";
import type { EngineBuild } from "../../../src/api/engine/engine.ts";
import { RametError } from "../../../src/base/errors.ts";
import { cellProver, proofHeaders, proofPath } from "../../../src/cell/client/cell-proof.ts";
import { unmetNeed } from "../../../src/cell/checkpoint/restore-source.ts";
import { tokenVerifier } from "../../../src/cell/server/token-verifier.ts";
import { openForRead, openForWrite } from "../../../src/store/open.ts";

/** How a test changes a stand-in's behaviour, also during a call. */
export interface StandInBehaviour {
  /** A capture waits for this after it has started. */
  captureGate?: Promise<unknown>;
  /** The response to a capture waits for this after the data was published. */
  captureResponseGate?: Promise<unknown>;
  /** Error of the next capture. */
  captureError?: RametError;
  /** Publishes a checkpoint of any size, like a cell of an earlier version. */
  ignoresMaxBytes?: true;
  /** The response to a restore waits for this after the sandbox runs. */
  restoreResponseGate?: Promise<unknown>;
  /** Error of every boot and restore. */
  startError?: RametError;
  /** Error of every restore in place. */
  restoreInPlaceError?: RametError;
  /** The engine and the CPU that it reports, that its checkpoints need, and that restores are compared with. @default not reported */
  build?: EngineBuild;
  /** Error of every change of a running sandbox's identity. */
  adoptError?: RametError;
}

/**
 * A stand-in for a cell: serves the cell's HTTP API, checks its tokens, and writes real checkpoints of one small file into
 * the real store. Runs no sandbox, so it does not test gVisor, the guest, durations or the content of a checkpoint.
 */
export class StandInCell {
  readonly config: Pick<CellConfig, "sandbox" | "container" | "publicKey" | "templateDigest" | "start">;
  readonly ip: string;
  readonly behaviour: StandInBehaviour;
  /** Calls that can change the state, in order. */
  readonly calls: string[] = [];
  identity: Identity | undefined;
  /** The content of the next checkpoint. */
  content = "";
  /** The id of the restored checkpoint. */
  restored: string | undefined;
  onStop: (reason: string) => void = () => undefined;
  #state: CellState;
  readonly #prover: ReturnType<typeof cellProver>;
  #lastCapture: { checkpointId: string; result: Promise<CheckpointResult> } | undefined;
  #server: Server | undefined;

  constructor(config: StandInCell["config"], ip: string, behaviour: StandInBehaviour = {}) {
    this.config = config;
    this.ip = ip;
    this.behaviour = behaviour;
    this.#prover = cellProver(config.sandbox.uid);
    this.content = `of ${config.sandbox.name}`;
    const { build } = behaviour;
    const phase = config.start === "wait" ? "waiting" : "booting";
    this.#state = { phase, generation: 0, ready: false, ...(build && { engine: build }) };
  }

  get state(): CellState {
    return this.#state;
  }

  async listen(): Promise<void> {
    const server = createServer((request, response) => {
      void this.#answer(request, response);
    });
    server.listen(cellPort, this.ip);
    await once(server, "listening");
    this.#server = server;
  }

  async close(): Promise<void> {
    const server = this.#server;
    if (server === undefined) return;
    this.#server = undefined;
    server.close();
    server.closeAllConnections();
    await once(server, "close");
  }

  async #answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    try {
      if (request.url === proofPath) {
        const proof = this.#prover.prove(request.headersDistinct[proofHeaders.nonce]?.[0]);
        response.writeHead(204, { [proofHeaders.key]: this.#prover.publicKey, [proofHeaders.proof]: proof }).end();
        return;
      }
      const operation = (request.url ?? "").replace(/^\/v1\//, "");
      const chunks: Buffer[] = [];
      for await (const chunk of request as AsyncIterable<Buffer>) chunks.push(chunk);
      const body = Buffer.concat(chunks);
      const { publicKey, sandbox } = this.config;
      const token = await tokenVerifier({ publicKey }, sandbox.uid).verify(request.headers.authorization, operation);
      token.requireBody(body);
      const answer = await this.#perform(operation, body.length === 0 ? {} : JSON.parse(body.toString()));
      response.writeHead(200, { "content-type": "application/json" }).end(JSON.stringify(answer));
    } catch (error) {
      const { code, message, hint, retryable } = RametError.from(error);
      response.writeHead(statusOf(code)).end(JSON.stringify({ code, message, hint, retryable }));
    }
  }

  async #perform(operation: string, body: unknown): Promise<unknown> {
    if (operation !== "state") this.calls.push(operation);
    switch (operation) {
      case "state":
        return this.#state;
      case "loaded":
        return this.#state;
      case "boot":
        return this.#start(BootRequest.parse(body).identity);
      case "identity":
        if (this.behaviour.adoptError !== undefined) throw this.behaviour.adoptError;
        this.identity = IdentityRequest.parse(body).identity;
        return (this.#state = { ...this.#state, generation: this.#state.generation + 1 });
      case "restore":
        return { state: await this.#restore(RestoreRequest.parse(body)), phases: { engine: 1 } };
      case "swap":
        if (this.behaviour.restoreInPlaceError !== undefined) throw this.behaviour.restoreInPlaceError;
        return { state: await this.#restore(RestoreInPlaceCall.parse(body)), phases: { engine: 1 } };
      case "checkpoint":
        return this.#checkpoint(CheckpointRequest.parse(body));
      case "egress":
        EgressRequest.parse(body);
        return this.#state;
      case "stop":
        this.#state = { ...this.#state, phase: "stopped", ready: false };
        this.onStop((body as { reason: string }).reason);
        return this.#state;
      default:
        throw new RametError("NotFound", `the stand-in has no ${operation}`);
    }
  }

  #start(identity: Identity): CellState {
    if (this.behaviour.startError !== undefined) throw this.behaviour.startError;
    this.identity = identity;
    return (this.#state = { ...this.#state, phase: "running", ready: true, generation: 1 });
  }

  async #restore({ grant, identity }: Pick<RestoreRequest, "grant" | "identity">): Promise<CellState> {
    const session = await openForRead(grant);
    const unmet = this.behaviour.build && unmetNeed(session.manifest, this.behaviour.build);
    if (unmet !== undefined) {
      await session.release();
      throw unmet;
    }
    this.restored = session.manifest.checkpointId;
    this.content = await readFile(join(session.imagePath, "checkpoint.img"), "utf8");
    await session.release();
    const state = this.#start(identity);
    await this.behaviour.restoreResponseGate;
    return state;
  }

  #checkpoint(request: CheckpointRequest): Promise<CheckpointResult> {
    const { checkpointId } = request.grant;
    if (this.#lastCapture?.checkpointId === checkpointId) return this.#lastCapture.result;
    if (this.#state.checkpointing !== undefined) {
      throw new RametError(
        "Conflict",
        `checkpoint: the capture of checkpoint ${this.#state.checkpointing} is in progress`,
        { retryable: true },
      );
    }
    if (!this.#state.ready) throw new RametError("SandboxNotReady", `checkpoint: it is ${this.#state.phase}`);
    const result = this.#capture(request);
    this.#lastCapture = { checkpointId, result };
    result.catch(() => (this.#lastCapture = undefined));
    return result;
  }

  async #capture({ grant, contents, keepRunning, maxBytes = Infinity }: CheckpointRequest): Promise<CheckpointResult> {
    this.#state = { ...this.#state, checkpointing: grant.checkpointId };
    try {
      await this.behaviour.captureGate;
      const error = this.behaviour.captureError;
      delete this.behaviour.captureError;
      if (error !== undefined) throw error;
      if (this.content.length > maxBytes && this.behaviour.ignoresMaxBytes !== true)
        throw new RametError("QuotaExceeded", `it has ${this.content.length} bytes, and may have ${maxBytes}`);
      const session = await openForWrite(grant);
      await writeFile(join(session.stagingPath, "checkpoint.img"), this.content);
      const cutAt = new Date().toISOString();
      const published = await session.publish({
        contents,
        cutAt,
        engine: {
          name: "gvisor",
          platform: "none",
          ...(this.behaviour.build ?? { version: "stand-in", architecture: "amd64" }),
        },
        templateDigest: this.config.templateDigest,
        container: this.config.container,
        image: { name: this.config.container.image },
        consistency: "crash",
      });
      await this.behaviour.captureResponseGate;
      const { manifestDigest, sizeBytes, phases } = published;
      if (!keepRunning) this.#state = { ...this.#state, phase: "paused", ready: false };
      return { manifestDigest, sizeBytes, cutAt, readyAt: cutAt, pausedMilliseconds: 0, phases };
    } finally {
      const { checkpointing: _, ...rest } = this.#state;
      this.#state = rest;
    }
  }
}
