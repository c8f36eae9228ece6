import { execFileSync, spawn, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import {
  chmod,
  mkdir,
  mkdtemp,
  readdir,
  readFile,
  readlink,
  rename,
  rm,
  symlink,
  truncate,
  writeFile,
} from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { beforeAll, describe, expect, it, onTestFinished } from "vitest";
import { NodeCache } from "../../../src/cell/layers/node-cache.ts";
import { acquireTools } from "../../../src/local/tools/acquire-tools.ts";
import { encryptedStore } from "../../../src/store/encryption/encrypted-store.ts";
import { openForRead, openForWrite } from "../../../src/store/open.ts";
import { storeAt } from "../../../src/store/store-at.ts";
import { startFaultProxy } from "../../setup/fault-proxy.ts";
import { startS3Server } from "../../setup/s3-server.ts";
import { draft } from "../store/draft.ts";
import type { CacheOrder } from "./cache-user.ts";

let link: string;
beforeAll(async () => {
  ({ "ramet-link": link } = await acquireTools({ names: ["ramet-link"] }));
});

async function newDirectory(): Promise<string> {
  const directory = await mkdtemp(join(tmpdir(), "ramet-cache-"));
  onTestFinished(() => rm(directory, { recursive: true, force: true }));
  return directory;
}

const program = fileURLToPath(new URL("cache-user.ts", import.meta.url));
const nameOf = (digit: string) => `image-${digit.repeat(64)}`;

interface User {
  /** The next line that it prints. */
  line: () => Promise<string>;
  kill: () => Promise<void>;
}

/** Starts a process that uses the cache. @param within a command that executes the rest of its arguments */
function use(order: Omit<CacheOrder, "link">, within: readonly string[] = []): User {
  const [command, ...args] = [...within, process.execPath, program, JSON.stringify({ ...order, link })];
  const child: ChildProcess = spawn(command, args, { stdio: ["ignore", "pipe", "inherit"] });
  const lines = createInterface(child.stdout!)[Symbol.asyncIterator]();
  const kill = async (): Promise<void> => {
    if (child.exitCode !== null || child.signalCode !== null) return;
    child.kill("SIGKILL");
    await once(child, "exit");
  };
  onTestFinished(kill);
  return { line: async () => String((await lines.next()).value), kill };
}

/** The names of entries and drafts. */
async function entriesIn(directory: string): Promise<string[]> {
  const [boot] = await readdir(directory);
  return (await readdir(join(directory, boot ?? ""))).filter((name) => !name.endsWith(".lock")).sort();
}

/** The disk of this machine may be nearly full. */
const order = { name: nameOf("a"), sizeBytes: 1000, budgetBytes: 2500, freeShare: 0 };
const has = "has 1000";

describe("of several processes that need an entry", () => {
  it("one fills it and the others wait", async () => {
    const directory = await newDirectory();
    const users = [1, 2, 3, 4].map(() => use({ ...order, directory }));
    const first = await Promise.all(users.map(({ line }) => line()));
    expect(first.sort()).toEqual(["filling", has, has, has].sort());
    expect(await entriesIn(directory)).toEqual([`${nameOf("a")}-1000`]);
  });

  it("another one fills it when the first is killed, and nothing of the first is left", async () => {
    const directory = await newDirectory();
    const killed = use({ ...order, directory, while: "waits" });
    expect(await killed.line()).toBe("filling");
    const next = use({ ...order, directory });
    await killed.kill();
    expect([await next.line(), await next.line()]).toEqual(["filling", has]);
    expect(await entriesIn(directory)).toEqual([`${nameOf("a")}-1000`]);
  });

  it("one that is killed waits no longer", async () => {
    const directory = await newDirectory();
    const filling = use({ ...order, directory, while: "waits" });
    expect(await filling.line()).toBe("filling");
    const waiting = use({ ...order, directory });
    const locked = `/${nameOf("a")}-1000.lock`;
    const isWaiting = async (pid: string): Promise<boolean> => {
      const command = await readFile(`/proc/${pid}/cmdline`, "utf8").catch(() => "");
      const isLock = command.includes("\0lock\0");
      return isLock && (await readlink(`/proc/${pid}/fd/3`).catch(() => "")).endsWith(locked);
    };
    const waiters = async () => {
      const all = (await readdir("/proc")).filter((name) => /^\d+$/.test(name));
      return (await Promise.all(all.map(isWaiting))).filter(Boolean).length;
    };
    // The other process has to start first.
    await expect.poll(waiters, { timeout: 60_000 }).toBe(1);
    await waiting.kill();
    await expect.poll(waiters).toBe(0);
  });

  it("each reports that the checkpoint is lost, and leaves nothing", async () => {
    const directory = await newDirectory();
    for (const user of [1, 2].map(() => use({ ...order, directory, while: "is damaged" })))
      expect([await user.line(), await user.line()]).toEqual(["filling", "it is lost [CheckpointLost]"]);
    const [boot = ""] = await readdir(directory);
    expect(await readdir(join(directory, boot))).toEqual(["room.lock"]);
  });
});

describe("a full cache", () => {
  it("removes the least recently used entry that no process has, and what was killed while it was filled", async () => {
    const directory = await newDirectory();
    const abandoned = use({ ...order, directory, name: nameOf("d"), while: "waits" });
    expect(await abandoned.line()).toBe("filling");
    await abandoned.kill();
    const first = use({ ...order, directory });
    expect([await first.line(), await first.line()]).toEqual(["filling", has]);
    const second = use({ ...order, directory, name: nameOf("b") });
    expect([await second.line(), await second.line()]).toEqual(["filling", has]);
    await second.kill();
    const third = use({ ...order, directory, name: nameOf("c") });
    expect([await third.line(), await third.line()]).toEqual(["filling", has]);
    expect(await entriesIn(directory)).toEqual([`${nameOf("a")}-1000`, `${nameOf("c")}-1000`]);
  });

  it("does not remove what running processes have: the next one uses its own directory, until one ends", async () => {
    const directory = await newDirectory();
    const [first, second] = ["a", "b"].map((digit) => use({ ...order, directory, name: nameOf(digit) }));
    for (const user of [first, second]) expect([await user?.line(), await user?.line()]).toEqual(["filling", has]);
    const third = use({ ...order, directory, name: nameOf("c") });
    expect([await third.line(), await third.line()]).toEqual([
      "the node's cache cannot be used; the cell uses its own directory: the entry does not fit beside those that sandboxes use",
      "own directory",
    ]);
    expect(await entriesIn(directory)).toEqual([`${nameOf("a")}-1000`, `${nameOf("b")}-1000`]);
    await first?.kill();
    const fourth = use({ ...order, directory, name: nameOf("c") });
    expect([await fourth.line(), await fourth.line()]).toEqual(["filling", has]);
    expect(await entriesIn(directory)).toEqual([`${nameOf("b")}-1000`, `${nameOf("c")}-1000`]);
  });

  it("removes others if the first one cannot be removed", async () => {
    const directory = await newDirectory();
    const boot = `${directory}/$(cat /proc/sys/kernel/random/boot_id)`;
    const [oldest, next] = ["b", "c"].map((digit) => `${boot}/${nameOf(digit)}-1000`);
    const mounted = `mount -t tmpfs tmpfs ${directory}; mkdir -p ${oldest}/mounted ${next}; mount -t tmpfs tmpfs ${oldest}/mounted`;
    const user = use({ ...order, directory }, inOwnMounts(`${mounted}; touch -d yesterday ${oldest}`));
    expect(await user.line()).toContain("an entry of the node's cache cannot be removed");
    expect([await user.line(), await user.line()]).toEqual(["filling", has]);
  });

  it("has no room for an entry that is larger than its limit, and keeps the others", async () => {
    const directory = await newDirectory();
    const first = use({ ...order, directory });
    expect([await first.line(), await first.line()]).toEqual(["filling", has]);
    await first.kill();
    const large = use({ ...order, directory, name: nameOf("b"), sizeBytes: 3000 });
    expect(await large.line()).toContain("does not fit");
    expect(await entriesIn(directory)).toEqual([`${nameOf("a")}-1000`]);
  });
});

const cannot = "the node's cache cannot be used; the cell uses its own directory";
const inOwnMounts = (prepare: string) =>
  "unshare --user --map-root-user --mount sh -euc".split(" ").concat(`${prepare}; exec "$@"`, "sh");

describe("a cell uses its own directory", () => {
  it("where too little of the node's disk would stay free, after it removed what no cell uses", async () => {
    const directory = await newDirectory();
    const large = { ...order, directory, sizeBytes: 1 << 20, budgetBytes: 1 << 30, freeShare: 0.5 };
    const boot = `${directory}/$(cat /proc/sys/kernel/random/boot_id)`;
    const filled = (unused: string) =>
      inOwnMounts(
        `mount -t tmpfs -o size=4m tmpfs ${directory}; head -c 1500000 /dev/zero > /tmp/$$; mkdir ${boot} ${boot}/${nameOf("b")}-9; mv /tmp/$$ ${unused}`,
      );
    const first = use(large, filled(`${boot}/${nameOf("b")}-9/content`));
    expect([await first.line(), await first.line()]).toEqual(["filling", `has ${1 << 20}`]);
    const second = use(large, filled(`${boot}/of-others`));
    expect([await second.line(), await second.line()]).toEqual([
      `${cannot}: with the entry, less than 50 % of the node's disk would be free`,
      "own directory",
    ]);
  });

  it("where too little would stay free when another cell has made its entry", async () => {
    const directory = await newDirectory();
    const boot = `${directory}/$(cat /proc/sys/kernel/random/boot_id)`;
    const other = `${boot}/${nameOf("b")}-1500000`;
    const prepare = `mount -t tmpfs -o size=4m tmpfs ${directory}; mkdir -p ${other}.draft; exec 9> ${other}.lock; flock 9`;
    const large = { ...order, directory, sizeBytes: 1 << 20, budgetBytes: 1 << 30, freeShare: 0.5 };
    expect(await use(large, inOwnMounts(prepare)).line()).toBe(
      `${cannot}: with the entry, less than 50 % of the node's disk would be free`,
    );
  });

  it("where too little stays free because others wrote while it filled the entry, which it removes", async () => {
    const directory = await newDirectory();
    const large = { ...order, directory, sizeBytes: 1 << 20, budgetBytes: 1 << 30, freeShare: 0.5 };
    const user = use({ ...large, while: "others write" }, inOwnMounts(`mount -t tmpfs -o size=4m tmpfs ${directory}`));
    expect([await user.line(), await user.line(), await user.line()]).toEqual([
      "filling",
      `${cannot}: with the entry, less than 50 % of the node's disk would be free`,
      "own directory",
    ]);
  });

  it("where the node's disk becomes full, and leaves nothing there", async () => {
    const directory = await newDirectory();
    // As if others wrote while it fills the entry.
    const large = { ...order, directory, sizeBytes: 1 << 20, budgetBytes: 1 << 30, freeShare: -10 };
    const user = use(large, inOwnMounts(`mount -t tmpfs -o size=128k tmpfs ${directory}`));
    expect(await user.line()).toMatch(new RegExp(`^${cannot}: ENOSPC`));
    expect(await user.line()).toBe("own directory");
  });

  it("where the node's directory is read-only", async () => {
    const directory = await newDirectory();
    const user = use(
      { ...order, directory },
      inOwnMounts(`mount --bind ${directory} ${directory}; mount -o remount,bind,ro ${directory}`),
    );
    expect(await user.line()).toMatch(new RegExp(`^${cannot}: EROFS`));
    expect(await user.line()).toBe("own directory");
  });

  it("where it has no rights, as in a user namespace for which the directory is not mapped", async () => {
    const directory = await newDirectory();
    await chmod(directory, 0o755);
    const user = use({ ...order, directory }, ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]);
    expect(await user.line()).toMatch(new RegExp(`^${cannot}: EACCES`));
    expect(await user.line()).toBe("own directory");
  });

  it("where the node's directory is removed while it fills an entry", async () => {
    const directory = join(await newDirectory(), "removed");
    await mkdir(directory);
    const fill = async (path: string): Promise<void> => {
      await rm(directory, { recursive: true });
      await writeFile(join(path, "content"), "x");
    };
    const reports: unknown[] = [];
    const cache = new NodeCache({
      paths: { nodeCache: directory, link },
      sizeBytes: 2500,
      freeShare: 0,
      report: (...given) => reports.push(given),
    });
    expect(await cache.provide({ ...order, fill, isIntact: () => Promise.resolve(true) })).toBeUndefined();
    expect(reports).toEqual([
      [cannot, expect.objectContaining({ message: expect.stringMatching(/ENOENT/) as string })],
    ]);
  });
});

it("opens what a cell keeps only once, also at the same time, and closes what another sandbox does not use", async () => {
  const directory = await newDirectory();
  const cache = new NodeCache({
    paths: { nodeCache: directory, link },
    sizeBytes: 2500,
    freeShare: 0,
    report: () => undefined,
  });
  const entry = { ...order, fill: () => Promise.resolve(), isIntact: () => Promise.resolve(true) };
  const [kept, again] = await Promise.all([cache.keep(entry), cache.keep(entry)]);
  expect(again).toBe(kept);
  const timesOpen = async () => {
    const links = (await readdir("/proc/self/fd")).map((fd) => readlink(`/proc/self/fd/${fd}`).catch(() => ""));
    return (await Promise.all(links)).filter((path) => path === kept?.path).length;
  };
  expect(await cache.keep(entry)).toBe(kept);
  expect(await timesOpen()).toBe(1);
  await cache.keepOnly([entry.name]);
  expect(await timesOpen()).toBe(1);
  await cache.keepOnly([]);
  expect(await timesOpen()).toBe(0);
});

it("trusts nothing from before the node was started again, and removes it", async () => {
  const directory = await newDirectory();
  await mkdir(join(directory, "an-earlier-boot", `${nameOf("a")}-1000`), { recursive: true });
  const user = use({ ...order, directory });
  expect([await user.line(), await user.line()]).toEqual(["filling", has]);
  await expect.poll(() => readdir(directory)).toHaveLength(1);
});

describe("the image of a checkpoint in a bucket", () => {
  const content = { "checkpoint.img": "state", "pages.img": "y".repeat(9 << 20) };

  /** @param key encrypts the checkpoint */
  async function published(key?: Buffer) {
    const [server, scratchPath] = [await startS3Server(), await newDirectory()];
    const proxy = await startFaultProxy(server.endpoint);
    onTestFinished(async () => {
      await proxy.stop();
      await server.stop();
    });
    const downloads: string[] = [];
    proxy.choose = ({ method, path, range }) => {
      if (method === "GET" && range !== undefined) downloads.push(`${new URL(path, proxy.endpoint).pathname} ${range}`);
      return "pass";
    };
    Object.assign(process.env, server.environment);
    const plain = await storeAt(await server.makePlace(proxy.endpoint));
    const named = () => Promise.resolve(key && { secret: "keys", key: "one", bytes: key });
    const find = async () => (await named()) ?? expect.fail("nothing is encrypted");
    const store = encryptedStore(plain, { current: named, find });
    const ref = { namespace: "test", checkpointId: "one", ttlMilliseconds: 60_000 };
    const session = await openForWrite(await store.grantWrite(ref), { scratchPath });
    for (const [name, text] of Object.entries(content)) await writeFile(join(session.stagingPath, name), text);
    const { manifestDigest } = await session.publish(draft());
    await session.abandon();
    const grant = await store.grantRead({ ...ref, manifestDigest });
    const directory = join(scratchPath, "cache");
    await mkdir(directory);
    const reports: string[] = [];
    const cell = () => {
      const shared = new NodeCache({
        paths: { nodeCache: directory, link },
        sizeBytes: 1 << 30,
        freeShare: 0,
        report: (message) => reports.push(message),
      });
      return openForRead(grant, { scratchPath, shared });
    };
    return { cell, reports, directory, downloads };
  }

  const pagesIn = (path: string) => readFile(join(path, "pages.img"), "utf8");

  it("is downloaded once for all cells", async () => {
    const { cell, downloads, reports } = await published();
    const sessions = await Promise.all([cell(), cell(), cell()]);
    expect(new Set(sessions.map(({ imagePath }) => imagePath)).size).toBe(1);
    expect(await pagesIn(sessions[0].imagePath)).toBe(content["pages.img"]);
    // Parts of 4 MiB.
    expect(downloads).toHaveLength(4);
    for (const session of sessions) await session.release();
    expect(reports).toEqual([]);
  });

  it("is there as in the bucket if it is encrypted, and each cell decrypts it for itself", async () => {
    const { cell, downloads, directory } = await published(Buffer.alloc(32, 1));
    const sessions = [await cell(), await cell()];
    for (const session of sessions) expect(await pagesIn(session.imagePath)).toBe(content["pages.img"]);
    expect(sessions[0]?.imagePath).not.toBe(sessions[1]?.imagePath);
    expect(new Set(downloads).size).toBe(downloads.length);
    const paths = await readdir(directory, { recursive: true, withFileTypes: true });
    const cached = paths.filter((entry) => entry.isFile()).map((entry) => join(entry.parentPath, entry.name));
    expect(cached.length).toBeGreaterThanOrEqual(3);
    for (const path of cached) expect((await readFile(path, "latin1")).includes("y".repeat(20))).toBe(false);
    for (const session of sessions) await session.release();
  });

  it.each([
    ["of which a byte was changed", (path: string) => writeFile(path, "z", { flag: "r+" })],
    ["that was cut", (path: string) => truncate(path, 5 << 20)],
    ["that is missing", (path: string) => rm(path)],
    ["with a file that no manifest names", (path: string) => writeFile(join(dirname(path), "gcs_opts.json"), "{}")],
    [
      "whose record is a FIFO",
      async (path: string) => {
        const record = join(dirname(dirname(path)), "fingerprints.json");
        await rm(record);
        execFileSync("mkfifo", [record]);
      },
    ],
    [
      "whose directory is a link",
      async (path: string) => {
        const files = dirname(path);
        await rename(files, `${files}-moved`);
        await symlink(`${files}-moved`, files);
      },
    ],
  ])("%s is downloaded again, and never while another cell uses it into its place", async (_, damage) => {
    const { cell, reports } = await published();
    const first = await cell();
    await chmod(join(first.imagePath, "pages.img"), 0o600);
    await damage(join(first.imagePath, "pages.img"));
    const second = await cell();
    expect(second.imagePath).not.toBe(first.imagePath);
    expect(await pagesIn(second.imagePath)).toBe(content["pages.img"]);
    expect(reports).toHaveLength(1);
    await Promise.all([first.release(), second.release()]);
    const third = await cell();
    expect(third.imagePath).toBe(first.imagePath);
    expect(await pagesIn(third.imagePath)).toBe(content["pages.img"]);
    await third.release();
  });
});
