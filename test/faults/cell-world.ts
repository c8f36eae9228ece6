import { once } from "node:events";
import { firstAnswer, workloadCommand, workloadPort } from "../bench/workload.ts";
import type { RunningCell } from "../setup/cell-rig.ts";
import { Cells, namespace } from "../setup/cells.ts";

/** Cells whose programs count what they are asked, and can be asked what has become of them. */
export class CellWorld extends Cells {
  static override async open(): Promise<CellWorld> {
    const { rig, store } = await super.open();
    return new CellWorld(rig, store);
  }

  /** A sandbox that runs and answers, with so much touched memory. */
  async source(name: string, sizeMiB = 0): Promise<RunningCell> {
    const cell = await this.boot({ name, container: container(sizeMiB) });
    await firstAnswer(cell.address.ip);
    return cell;
  }

  /** What the store says that there is; undefined when the checkpoint was never published. */
  async published(checkpointId: string): Promise<string | undefined> {
    return (await this.store.find({ namespace, checkpointId }))?.manifestDigest;
  }

  /** A cell that waits for the checkpoint, and the request to restore it. */
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

  /** Sweeps as a controller would that knows no unfinished checkpoint, and returns what was left of broken attempts. */
  async sweptRests(): Promise<number> {
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
