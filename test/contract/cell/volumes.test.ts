import { chmod, mkdir, readdir, writeFile } from "node:fs/promises";
import { once } from "node:events";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { RunningCell } from "../../setup/cell-rig.ts";
import { both, Cells, type CellOptions } from "../../setup/cells.ts";

/** Keeps a file and a directory of the emptyDir open, and appends a line to the file on request. */
const holder = `
import os, time
log = open("/work/sub/log", "a+")
directory = os.open("/work/sub", os.O_RDONLY)
done = 0
while True:
    try: wanted = int(open("/tmp/wanted").read() or 0)
    except FileNotFoundError: wanted = 0
    while done < wanted:
        done += 1
        log.write("line %d\\n" % done); log.flush()
        os.close(os.open("made-%d" % done, os.O_CREAT | os.O_WRONLY, dir_fd=directory))
    time.sleep(0.005)
`;

/** A real cell with volumes as directories, as a node provides them. It does not prove what a kubelet does. */
describe("volumes of a sandbox", () => {
  let cells: Cells;
  let source: RunningCell;

  beforeAll(async () => {
    cells = await Cells.open();
    source = await boot("source");
    await printLines(source, 1);
    await output(source, "head -c 12000000 /dev/urandom > /work/big; sha256sum /work/big > /work/big.sum");
  });
  afterAll(() => cells.close());

  const volumesOf = (name: string): string => join(cells.rig.directory, `volumes-${name}`);

  async function withVolumes(name: string): Promise<CellOptions> {
    const directory = (volume: string): string => join(volumesOf(name), volume);
    for (const volume of ["work", "small", "config"]) {
      await mkdir(directory(volume), { recursive: true });
      await chmod(directory(volume), 0o777);
    }
    await writeFile(join(directory("config"), "name"), name);
    const command = ["sh", "-c", 'mkdir -p /work/sub; exec python3 -c "$0"', holder];
    const mounts = [
      { source: directory("config"), target: "/config", readOnly: true },
      { source: directory("small"), target: "/small", readOnly: false, emptyDir: { sizeLimitBytes: 1 << 20 } },
      { source: directory("work"), target: "/work", readOnly: false, emptyDir: {} },
    ];
    return { name, container: { command, mounts, user: { uid: 1000, gid: 1000 } } };
  }

  const boot = async (name: string): Promise<RunningCell> => cells.boot(await withVolumes(name));
  const output = (cell: RunningCell, script: string): Promise<string> => cells.output(cell, script);

  /** Has the program with the open file write until there are this many lines, and returns the file. */
  function printLines(cell: RunningCell, lines: number): Promise<string> {
    const wait = `until [ -e /work/sub/made-${lines} ]; do sleep 0.01; done`;
    return output(cell, `echo ${lines} > /tmp/wanted; ${wait}; cat /work/sub/log`);
  }

  async function capture(cell: RunningCell, checkpointId: string, contents = both): Promise<string> {
    return (await cells.checkpoint(cell, checkpointId, { contents })).manifestDigest;
  }

  async function clone(name: string, checkpointId: string, manifestDigest: string, contents = both) {
    return cells.clone(await withVolumes(name), { checkpointId, manifestDigest, contents });
  }

  it("gives each clone its own copy of an emptyDir, including open files", async () => {
    const digest = await capture(source, "memory-1");
    expect(await printLines(source, 2)).toBe("line 1\nline 2");
    await output(source, "rm /work/big");
    const [first, second] = [await clone("first", "memory-1", digest), await clone("second", "memory-1", digest)];
    expect(await output(first, "sha256sum -c /work/big.sum; ls /work/sub")).toBe("/work/big: OK\nlog\nmade-1");
    expect(await printLines(first, 3)).toBe("line 1\nline 2\nline 3");
    expect(await output(second, "cat /work/sub/log")).toBe("line 1");
    expect(await output(source, "cat /work/sub/log; ls /work")).toBe("line 1\nline 2\nbig.sum\nsub");
    const again = await clone("again", "memory-2", await capture(first, "memory-2"));
    expect(await printLines(again, 4)).toBe("line 1\nline 2\nline 3\nline 4");
    expect(await output(again, "sha256sum -c /work/big.sum")).toBe("/work/big: OK");
  });

  it("gives a clone its own ConfigMap volume", async () => {
    const configured = await clone("configured", "memory-3", await capture(source, "memory-3"));
    expect([await output(source, "cat /config/name"), await output(configured, "cat /config/name")]).toEqual([
      "source",
      "configured",
    ]);
  });

  it("makes an emptyDir writable for every user up to its sizeLimit", async () => {
    expect(
      await output(
        source,
        "stat -c %a /work; id -u; dd if=/dev/zero of=/small/x bs=1k count=900 2>&1 | tail -1; rm /small/x",
      ),
    ).toMatch(/^777\n\d+\n921600 bytes/);
    expect(await output(source, "dd if=/dev/zero of=/small/x bs=1M count=2 2>&1; rm -f /small/x")).toMatch(
      /No space left/,
    );
  });

  it("counts an emptyDir's size in the Pod's directory, and removes it with the sandbox", async () => {
    const counted = await boot("counted");
    await output(counted, "head -c 5000000 /dev/urandom > /work/five");
    const [file] = await readdir(join(volumesOf("counted"), "work"));
    expect(file).toMatch(/^\.gvisor\.filestore\./);
    const exited = once(counted.process, "exit");
    await cells.client.stop(counted.address, "the test is over");
    await exited;
    expect(await readdir(join(volumesOf("counted"), "work"))).toEqual([]);
  });

  it("starts a filesystem clone with an empty emptyDir", async () => {
    // Otherwise the program of the clone begins with the number that its source was asked for.
    await output(source, "echo 0 > /tmp/wanted");
    const digest = await capture(source, "files-1", ["filesystem"]);
    const fresh = await clone("fresh", "files-1", digest, ["filesystem"]);
    expect(await printLines(fresh, 1)).toBe("line 1");
    expect(await output(fresh, "ls /work")).toBe("sub");
  });
});
