import { mkdir, readFile, writeFile } from "node:fs/promises";
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from "vitest";
import type { CellState, ContainerSpec } from "../../../src/api/wire/cell-api.ts";
import { delay, systemClock } from "../../../src/base/clock.ts";
import { cgroupLayout, controllers } from "../../../src/cell/cgroup/layout.ts";
import type { Contents } from "../../../src/api/schema/metadata.ts";
import { RametError } from "../../../src/base/errors.ts";
import { removeGroups } from "../../../src/cell/cgroup/record.ts";
import type { RunningCell } from "../../setup/cell-rig.ts";
import { type CellOptions, Cells, type PublishedCheckpoint } from "../../setup/cells.ts";

const mebibyte = 1024 ** 2;
const layout = cgroupLayout(
  await readFile("/proc/self/cgroup", "utf8"),
  await readFile("/proc/self/mountinfo", "utf8"),
);
const own = layout?.version === 1 && process.getuid?.() === 0 ? layout.own : {};
const canContain = controllers.every((controller) => own[controller] !== undefined);

/**
 * A stand-in for a container of version 1: groups with limits, which the cell sees as the read-only root of each hierarchy, as
 * containerd and runc mount them. The kubelet suite proves the same in a Pod.
 */
describe.runIf(canContain)("a cell in a container's control groups", () => {
  let cells: Cells;

  beforeAll(async () => {
    cells = await Cells.open();
  });
  afterAll(() => cells.close());

  interface Limits {
    container: number;
    sandbox: ContainerSpec["resources"];
    /** Whether the cell runs in a user namespace, where it cannot make the groups writable. */
    isInUserNamespace?: boolean;
  }

  /** Starts a sandbox in a container with these limits. Its name is that of the container's group. */
  async function boot(name: string, limits: Limits): Promise<RunningCell> {
    return ending(name, await cells.boot(await inContainer(name, limits)));
  }

  /** As {@link boot}, from a checkpoint. */
  async function clone(name: string, limits: Limits, checkpoint: PublishedCheckpoint): Promise<RunningCell> {
    return ending(name, await cells.clone(await inContainer(name, limits), checkpoint));
  }

  async function inContainer(
    name: string,
    { container, sandbox, isInUserNamespace = false }: Limits,
  ): Promise<CellOptions> {
    const directories = controllers.map((controller) => directoryOf(name, controller));
    for (const directory of directories) await mkdir(directory);
    await writeFile(`${directoryOf(name, "memory")}/memory.limit_in_bytes`, `${container}`);
    const script = controllers.map((controller) => {
      const [directory, mount] = [directoryOf(name, controller), `/sys/fs/cgroup/${controller}`];
      return `echo 0 > ${directory}/tasks && mount --bind ${directory} ${mount} && mount -o remount,bind,ro ${mount}`;
    });
    const enter = isInUserNamespace ? "unshare --user --map-root-user --mount" : "";
    const within = ["unshare", "--mount", "sh", "-c", `${script.join(" && ")} && exec ${enter} "$@"`, "container"];
    return { name, container: { command: ["sleep", "infinity"], resources: sandbox }, within };
  }

  function ending(name: string, cell: RunningCell): RunningCell {
    onTestFinished(async () => {
      cell.process.kill("SIGKILL");
      const uid = cell.address.sandboxUid;
      const inside = [`ramet/${uid}/sandbox`, `ramet/${uid}/cut`, `ramet/${uid}`, "ramet"];
      for (const directory of controllers.map((controller) => directoryOf(name, controller)))
        await removeGroups([...inside.map((path) => `${directory}/${path}`), directory]);
    });
    return cell;
  }

  function directoryOf(name: string, controller: (typeof controllers)[number]): string {
    return `${own[controller] ?? ""}/container-${name}-${process.pid}`;
  }

  async function hold(cell: RunningCell, mebibytes: number): Promise<void> {
    const program = `import time
a = bytearray(${mebibytes * mebibyte})
for i in range(0, len(a), 4096): a[i:i+4] = (i // 4096 + 1).to_bytes(4, "big")
print("held", flush=True)
time.sleep(1000)`;
    const held = cells.guestOf(cell).startProcess({ command: "python3", args: ["-c", program] });
    for await (const event of held) if (event.type === "data") return;
  }

  it.each([300, 420, 470])("checkpoints a sandbox of 512Mi that holds %d MiB, and it keeps running", async (size) => {
    const limits = { container: 640 * mebibyte, sandbox: { memoryBytes: 512 * mebibyte } };
    const cell = await boot(`near-${size}`, limits);
    await hold(cell, size);
    expect(await cells.client.state(cell.address)).not.toHaveProperty("unenforced");
    const { sizeBytes } = await cells.checkpoint(cell, `near-${size}`);
    expect(sizeBytes).toBeGreaterThan(size * mebibyte);
    expect(await cells.output(cell, "echo $((6 * 7))")).toBe("42");
  });

  it("captures files alone that take most of the memory limit, and restores them with the same limit", async () => {
    const limits = { container: 640 * mebibyte, sandbox: { memoryBytes: 512 * mebibyte } };
    const contents: Contents = ["filesystem"];
    const cell = await boot("files", limits);
    const digest = await cells.output(cell, "head -c 440M /dev/urandom > /data; sha256sum /data");
    const { sizeBytes, manifestDigest } = await cells.checkpoint(cell, "files", { contents });
    expect(sizeBytes).toBeGreaterThan(440 * mebibyte);
    const cloned = await clone("clone", limits, { checkpointId: "files", manifestDigest, contents });
    const grant = await cells.readGrant({ checkpointId: "files", manifestDigest });
    await cells.output(cell, "head -c 100M /dev/zero > /data");
    const { address, identity } = cell;
    await cells.client.restoreInPlace(address, { identity, grant, contents, request: "one" });
    for (const one of [cell, cloned]) expect(await cells.output(one, "sha256sum /data")).toBe(digest);
  });

  it.each([380, 400, 420])("does not harm a sandbox of %d MiB whose groups cannot be created", async (size) => {
    const limits = { container: 512 * mebibyte, sandbox: { memoryBytes: 512 * mebibyte } };
    const cell = await boot(`shared-${size}`, { ...limits, isInUserNamespace: true });
    await hold(cell, size);
    const { unenforced } = await cells.client.state(cell.address);
    expect(unenforced).toMatch(/^resources\.limits \(memory\) are not enforced by the cell: making .* writable failed/);
    const error = await cells.checkpoint(cell, `shared-${size}`).then(
      () => undefined,
      (error: unknown) => RametError.from(error),
    );
    // The largest one leaves no room, whatever else is in use.
    if (size < 420) expect(error).toBeUndefined();
    else
      expect(error).toMatchObject({
        code: "CaptureRefused",
        message: expect.stringContaining("keeps running") as string,
      });
    expect(await cells.output(cell, "echo $((6 * 7))")).toBe("42");
  });

  it.each([false, true])(
    "reports that a sandbox exceeded its memory limit, if its groups cannot be created: %s",
    async (isInUserNamespace) => {
      const limits = { container: 384 * mebibyte, sandbox: { memoryBytes: 256 * mebibyte }, isInUserNamespace };
      const cell = await boot(`hog-${isInUserNamespace}`, limits);
      const ended = lastState(cell);
      await hold(cell, 600).catch(() => undefined);
      const limit = isInUserNamespace ? "384Mi" : "256Mi";
      expect(await ended).toMatchObject({
        phase: "failed",
        code: "OutOfMemory",
        message: `the sandbox was killed: it exceeded its memory limit of ${limit}`,
      });
    },
  );

  /** Resolves to the last state that an ending cell reports. */
  async function lastState(cell: RunningCell): Promise<CellState | undefined> {
    let last: CellState | undefined;
    try {
      for (;;) {
        last = await cells.client.state(cell.address, AbortSignal.timeout(60_000));
        await delay(systemClock, 20);
      }
    } catch {
      // The connection ends with the cell.
    }
    return last;
  }
});
