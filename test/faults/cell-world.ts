import { once } from "node:events";
import { mkdir } from "node:fs/promises";
import { join } from "node:path";
import { guestClientPort, type CheckpointResult } from "../../src/api/cell.ts";
import type { Contents } from "../../src/api/contents.ts";
import { GuestClient } from "../../src/cell/client/guest-client.ts";
import type { CheckpointStore } from "../../src/store/checkpoint-store.ts";
import { directoryStore } from "../../src/store/directory/store.ts";
import { firstAnswer, workloadCommand, workloadPort } from "../bench/workload.ts";
import { CellRig, type RunningCell } from "../setup/cell-rig.ts";
import { pythonRootPath } from "../setup/python-image.ts";

const namespace = "test";
export const both: Contents = ["memory", "filesystem"];

/** Cells and a store, without a cluster: the test is the controller. */
export class CellWorld {
  readonly rig: CellRig;
  readonly store: CheckpointStore;

  private constructor(rig: CellRig, store: CheckpointStore) {
    this.rig = rig;
    this.store = store;
  }

  static async open(): Promise<CellWorld> {
    const rig = await CellRig.open(await pythonRootPath());
    const root = join(rig.directory, "store");
    await mkdir(root);
    return new CellWorld(rig, directoryStore({ root }));
  }

  /** A sandbox that runs and answers, with so much touched memory. */
  async source(name: string, sizeMiB = 0): Promise<RunningCell> {
    const cell = await this.rig.startCell({ name, start: "boot", container: container(sizeMiB) });
    await this.rig.client.boot(cell.address, { identity: cell.identity });
    await firstAnswer(cell.address.ip);
    return cell;
  }

  async checkpoint(cell: RunningCell, checkpointId: string): Promise<CheckpointResult> {
    const grant = await this.store.grantWrite({ namespace, checkpointId, ttlMilliseconds: 60_000 });
    return this.rig.client.checkpoint(cell.address, { grant, contents: both, keepRunning: true });
  }

  /** What the store says that there is; undefined when the checkpoint was never published. */
  async published(checkpointId: string): Promise<string | undefined> {
    return (await this.store.find({ namespace, checkpointId }))?.manifestDigest;
  }

  /** A cell that waits for the checkpoint, and the wish to restore it. */
  async cloneOf(
    name: string,
    checkpointId: string,
    sizeMiB = 0,
  ): Promise<{ cell: RunningCell; restore: () => Promise<unknown> }> {
    const manifestDigest = await this.published(checkpointId);
    if (manifestDigest === undefined) throw new Error(`${checkpointId} is not in the store`);
    const cell = await this.rig.startCell({ name, start: "wait", container: container(sizeMiB) });
    const grant = await this.store.grantRead({ namespace, checkpointId, manifestDigest, ttlMilliseconds: 60_000 });
    const restore = (): Promise<unknown> =>
      this.rig.client.restore(cell.address, { identity: cell.identity, grant, contents: both });
    return { cell, restore };
  }

  /** Clones, asks once, and ends the clone: what its counter said. */
  async countInClone(checkpointId: string, sizeMiB = 0): Promise<number> {
    const { cell, restore } = await this.cloneOf("proof", checkpointId, sizeMiB);
    await restore();
    const count = await this.count(cell);
    await this.end(cell);
    return count;
  }

  async count(cell: RunningCell): Promise<number> {
    return Number(await firstAnswer(cell.address.ip));
  }

  async end(cell: RunningCell): Promise<void> {
    const exited = once(cell.process, "exit");
    await this.rig.client.stop(cell.address, "the test is over");
    await exited;
  }

  async run(cell: RunningCell, script: string): Promise<void> {
    const guest = new GuestClient({
      dial: () => this.rig.client.dial(cell.address, guestClientPort),
      accessToken: cell.identity.accessToken,
    });
    const run = guest.startProcess({ command: "sh", args: ["-c", script] });
    for await (const event of run) {
      if (event.type === "end" && event.exitCode !== 0) throw new Error(`${script}: exit code ${event.exitCode}`);
    }
  }

  /** Sweeps as a controller would that knows no unfinished checkpoint, and returns what was left of broken attempts. */
  async sweptRests(): Promise<number> {
    const report = await this.store.sweep({ standing: () => Promise.resolve("finished"), olderThanMilliseconds: 0 });
    return report.removedRests;
  }

  async stagingBytes(): Promise<number> {
    return (await this.store.usage(namespace)).stagingBytes;
  }

  close(): Promise<void> {
    return this.rig.close();
  }
}

function container(sizeMiB: number): { command: string[]; ports: number[] } {
  return { command: workloadCommand(sizeMiB), ports: [workloadPort] };
}
