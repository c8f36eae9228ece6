import { once } from "node:events";
import { firstAnswer, workloadCommand, workloadPort } from "../bench/workload.ts";
import type { RunningCell } from "../setup/cell-rig.ts";
import { Cells, namespace } from "../setup/cells.ts";

/** Cells with programs that count their requests. */
export class CellWorld extends Cells {
  static override async open(): Promise<CellWorld> {
    const { rig, store } = await super.open();
    return new CellWorld(rig, store);
  }

  /** Starts a sandbox with this much touched memory, and resolves when it responds. */
  async source(name: string, sizeMiB = 0): Promise<RunningCell> {
    const cell = await this.boot({ name, container: container(sizeMiB) });
    await firstAnswer(cell.address.ip);
    return cell;
  }

  /** The digest of a checkpoint's manifest in the store; undefined if it was never published. */
  async published(checkpointId: string): Promise<string | undefined> {
    return (await this.store.find({ namespace, checkpointId }))?.manifestDigest;
  }

  /** Starts a cell that waits for the checkpoint. `restore` restores it there. */
  async cloneOf(
    name: string,
    checkpointId: string,
    sizeMiB = 0,
  ): Promise<{ cell: RunningCell; restore: () => Promise<unknown> }> {
    const manifestDigest = await this.published(checkpointId);
    if (manifestDigest === undefined) throw new Error(`${checkpointId} is not in the store`);
    const cell = await this.rig.startCell({ name, start: "wait", container: container(sizeMiB) });
    return { cell, restore: () => this.restore(cell, { checkpointId, manifestDigest }) };
  }

  /** Starts a clone, reads its counter and stops it. */
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
    await this.client.stop(cell.address, "the test is over");
    await exited;
  }

  async run(cell: RunningCell, script: string): Promise<void> {
    for await (const event of this.guestOf(cell).startProcess({ command: "sh", args: ["-c", script] })) {
      if (event.type === "end" && event.exitCode !== 0) throw new Error(`${script}: exit code ${event.exitCode}`);
    }
  }

  /** Sweeps like a controller without unfinished checkpoints, and resolves to the number of removed orphans. */
  async sweptOrphans(): Promise<number> {
    const report = await this.store.sweep({ livenessOf: () => Promise.resolve("finished"), olderThanMilliseconds: 0 });
    return report.removedRests;
  }

  async stagingBytes(): Promise<number> {
    return (await this.store.usage(namespace)).stagingBytes;
  }
}

function container(sizeMiB: number): { command: string[]; ports: number[] } {
  return { command: workloadCommand(sizeMiB), ports: [workloadPort] };
}
