import { mkdir } from "node:fs/promises";
import { join } from "node:path";
import { guestClientPort, type CheckpointResult, type RestoreResult } from "../../src/api/wire/cell-api.ts";
import type { Contents } from "../../src/api/schema/metadata.ts";
import type { Grant } from "../../src/api/wire/grant.ts";
import type { CellClient } from "../../src/cell/client/cell-client.ts";
import { containerUser, GuestClient } from "../../src/cell/client/guest-client.ts";
import type { CheckpointStore } from "../../src/store/checkpoint-store.ts";
import { directoryStore } from "../../src/store/directory/store.ts";
import { CellRig, type RunningCell, type StartCellOptions } from "./cell-rig.ts";
import { pythonRootPath } from "./python-image.ts";

export const both: Contents = ["memory", "filesystem"];

/** The namespace of all checkpoints in these tests. */
export const namespace = "test";
const ttlMilliseconds = 60_000;

export type CellOptions = Omit<StartCellOptions, "start">;

/** A published checkpoint. */
export interface PublishedCheckpoint {
  checkpointId: string;
  manifestDigest: string;
  /** @default both */
  contents?: Contents;
}

/** Real cells and a store for their checkpoints, without a cluster: the test acts as the controller. */
export class Cells {
  readonly rig: CellRig;
  readonly store: CheckpointStore;

  protected constructor(rig: CellRig, store: CheckpointStore) {
    this.rig = rig;
    this.store = store;
  }

  /** @param rootPath root file system of the cells' image. @default an image with Python */
  static async open(rootPath?: string): Promise<Cells> {
    const rig = await CellRig.open(rootPath ?? (await pythonRootPath()));
    const root = join(rig.directory, "store");
    await mkdir(root);
    return new Cells(rig, directoryStore({ root }));
  }

  get client(): CellClient {
    return this.rig.client;
  }

  /** Starts a sandbox. */
  async boot(options: CellOptions): Promise<RunningCell> {
    const cell = await this.rig.startCell({ ...options, start: "boot" });
    await this.client.boot(cell.address, { identity: cell.identity });
    return cell;
  }

  async checkpoint(
    cell: RunningCell,
    checkpointId: string,
    {
      contents = both,
      keepRunning = true,
      asLayer,
    }: { contents?: Contents; keepRunning?: boolean; asLayer?: true } = {},
  ): Promise<CheckpointResult> {
    const grant = await this.writeGrant(checkpointId);
    return this.client.checkpoint(cell.address, { grant, contents, keepRunning, ...(asLayer && { asLayer }) });
  }

  writeGrant(checkpointId: string): Promise<Grant> {
    return this.store.grantWrite({ namespace, checkpointId, ttlMilliseconds });
  }

  readGrant({ checkpointId, manifestDigest }: PublishedCheckpoint): Promise<Grant> {
    return this.store.grantRead({ namespace, checkpointId, manifestDigest, ttlMilliseconds });
  }

  async restore(cell: RunningCell, checkpoint: PublishedCheckpoint): Promise<RestoreResult> {
    const grant = await this.readGrant(checkpoint);
    const { contents = both } = checkpoint;
    return this.client.restore(cell.address, { identity: cell.identity, grant, contents });
  }

  /** Starts another sandbox from a checkpoint. */
  async clone(options: CellOptions, checkpoint: PublishedCheckpoint): Promise<RunningCell> {
    const cell = await this.rig.startCell({ ...options, start: "wait" });
    await this.restore(cell, checkpoint);
    return cell;
  }

  /** Returns a client for the commands and files of a sandbox, as the user of its container. */
  guestOf(cell: RunningCell): GuestClient {
    const { accessToken } = cell.identity;
    const dial = () => this.client.dial(cell.address, guestClientPort);
    return new GuestClient({ dial, accessToken, user: containerUser });
  }

  /** Returns a script's output, whatever its exit code. */
  output(cell: RunningCell, script: string): Promise<string> {
    return this.#printed(cell, "sh", script);
  }

  /** Returns the output of a Python program, whatever its exit code. */
  python(cell: RunningCell, program: string): Promise<string> {
    return this.#printed(cell, "python3", program);
  }

  async #printed(cell: RunningCell, command: string, script: string): Promise<string> {
    let text = "";
    for await (const event of this.guestOf(cell).startProcess({ command, args: ["-c", script] })) {
      if (event.type === "data") text += event.data.toString();
    }
    return text.trim();
  }

  close(): Promise<void> {
    return this.rig.close();
  }
}
