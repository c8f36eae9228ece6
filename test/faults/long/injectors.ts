import { randomUUID } from "node:crypto";
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { readdir, readFile, rm, truncate, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { systemNamespace } from "../../../src/api/names/system-names.ts";
import { PodDirectory } from "../../../src/local/node/pod-directory.ts";
import { coreResources } from "../../../src/kube/resource-ref.ts";
import { namespace, type PartName } from "../../bench/local-cluster.ts";
import { cellAmong, podFamily } from "../../bench/pod-family.ts";
import { commandLineOf, killNow, type FoundProcess } from "../processes.ts";
import type { ApiFault } from "./api-proxy.ts";
import type { Fault, FaultKind } from "./plan.ts";
import type { StoreDisk } from "./store-disk.ts";
import type { LongWorld } from "./world.ts";

/** The target of an operation's faults. */
export interface Target {
  sandboxName: string;
  /** Another checkpoint of the operation's source. */
  checkpointId: string;
}

/** A fault that has begun. */
interface Injected {
  /** The target, for the report. */
  what: string;
  /** Ends what lasts. */
  end?: () => unknown;
}

/** Injects one kind of fault. Undefined: what it hits does not exist at this instant. */
type Injector = (world: LongWorld, target: Target, fault: Fault) => Promise<Injected | undefined>;

type Choose = (family: readonly FoundProcess[]) => FoundProcess | undefined;
const withCommand =
  (text: string): Choose =>
  (family) =>
    family.find(({ commandLine }) => commandLine.includes(text));
const cell: Choose = (family) => cellAmong(family);

const injectors: Record<FaultKind, Injector> = {
  "kill-controller": killPart("controller"),
  "kill-node": killPart("node"),
  "kill-api-server": killPart("api-server"),
  "kill-etcd": killPart("etcd"),
  "kill-cell": killOf(cell),
  "kill-link": killOf(withCommand("ramet-link net")),
  "kill-sentry": killOf(withCommand("runsc-sandbox")),
  "kill-gofer": killOf(withCommand("runsc-gofer")),
  "kill-runsc": onCommand((pid, what) => {
    killNow(pid);
    return { what };
  }),
  "hang-runsc": onCommand(hang),
  "hang-cell": hangOf(cell),
  "hang-sentry": hangOf(withCommand("runsc-sandbox")),
  "hang-controller": hangPart("controller"),
  "hang-node": hangPart("node"),
  "hang-api-server": hangPart("api-server"),
  "hang-etcd": hangPart("etcd"),
  "api-429": onApi("429"),
  "api-500": onApi("500"),
  "api-409": onApi("409"),
  "api-slow": onApi("slow"),
  "api-hang": onApi("hang"),
  "api-cut": onApi("cut"),
  "stale-watch": onApi("stale"),
  "lost-lease": loseLease,
  "clock-forward": jumpClock(3_600_000),
  "clock-back": jumpClock(-3_600_000),
  "store-full": onDisk((disk) => disk.fill()),
  "store-read-only": onDisk((disk) => disk.makeReadOnly()),
  "store-write-error": onDisk((disk) => disk.break()),
  "store-slow": onDisk((disk) => disk.freeze()),
  "store-truncated": truncateContent,
};

/** Injects the fault, and ends it after its time. Resolves to what it hit; undefined if there was nothing to hit. */
export async function inject(fault: Fault, world: LongWorld, target: Target): Promise<string | undefined> {
  const injected = await injectors[fault.kind](world, target, fault);
  if (injected === undefined) return undefined;
  await sleep(fault.lastsMilliseconds);
  await injected.end?.();
  return injected.what;
}

function killPart(part: PartName): Injector {
  return async (world) => {
    const pid = pidOf(world, part);
    if (pid === undefined) return undefined;
    killNow(pid);
    // The lease of a killed controller would run out after 15 s; faults that follow each other are not to wait for that.
    if (part === "controller") await setHolder(world, "");
    return { what: `${part} ${pid}` };
  };
}

function hangPart(part: PartName): Injector {
  return (world) => {
    const pid = pidOf(world, part);
    return Promise.resolve(pid === undefined ? undefined : hang(pid, part));
  };
}

function killOf(choose: Choose): Injector {
  return async ({ local }, { sandboxName }) => {
    const found = choose(await podFamily(local, sandboxName));
    if (found === undefined) return undefined;
    killNow(found.pid);
    return { what: `${found.commandLine.slice(0, 40)} (${found.pid}) of ${sandboxName}` };
  };
}

function hangOf(choose: Choose): Injector {
  return async ({ local }, { sandboxName }) => {
    const found = choose(await podFamily(local, sandboxName));
    return found && hang(found.pid, `${found.commandLine.slice(0, 40)} of ${sandboxName}`);
  };
}

/** Hits the next short command of gVisor for the sandbox. It may run for milliseconds only, so older processes are not read. */
function onCommand(hit: (pid: number, what: string) => Injected | undefined): Injector {
  return async ({ local }, { sandboxName }) => {
    const older = new Set(readdirSync("/proc"));
    for (const deadline = Date.now() + 4_000; Date.now() < deadline;) {
      for (const name of readdirSync("/proc")) {
        if (older.has(name)) continue;
        const command = commandLineOf(name).find((arg) => shortCommands.has(arg));
        if (command === undefined || !commandLineOf(name)[0]?.includes("runsc")) continue;
        if (isBelow(name, await podPids(local.directory.pods, sandboxName)))
          return hit(Number(name), `runsc ${command} (${name}) of ${sandboxName}`);
      }
      await sleep(1);
    }
    return undefined;
  };
}

async function podPids(pods: string, sandboxName: string): Promise<number[]> {
  const uids = await readdir(pods).catch(() => []);
  const records = uids.map((uid) => new PodDirectory(pods, uid).readRecord());
  return records.flatMap((record) => (record?.name === sandboxName ? [record.process.pid] : []));
}

function isBelow(pid: string, ancestors: readonly number[]): boolean {
  if (ancestors.includes(Number(pid))) return true;
  const status = existsSync(`/proc/${pid}/status`) ? readFileSync(`/proc/${pid}/status`, "utf8") : "";
  const parent = /^PPid:\s+(\d+)/m.exec(status)?.[1] ?? "0";
  return parent !== "0" && isBelow(parent, ancestors);
}

const shortCommands = new Set([
  "checkpoint",
  "restore",
  "create",
  "start",
  "pause",
  "resume",
  "exec",
  "delete",
  "kill",
]);

function hang(pid: number, what: string): Injected | undefined {
  const send = (signal: NodeJS.Signals): boolean => {
    try {
      return process.kill(pid, signal);
    } catch {
      return false;
    }
  };
  return send("SIGSTOP") ? { what: `${what} (${pid})`, end: () => send("SIGCONT") } : undefined;
}

function onApi(fault: ApiFault): Injector {
  return ({ api }) => {
    const injected: Injected = { what: "no request" };
    const end = api.begin(fault);
    injected.end = () => {
      injected.what = `${end()} requests or watches of the controllers`;
    };
    return Promise.resolve(injected);
  };
}

function onDisk(begin: (disk: StoreDisk) => Promise<() => Promise<void>>): Injector {
  return async ({ disk }) => {
    if (disk === undefined) return undefined;
    // It cannot become read-only while a file is being written.
    for (const deadline = Date.now() + 3_000; Date.now() < deadline;) {
      const end = await begin(disk).catch(() => undefined);
      if (end !== undefined) return { what: "the store", end };
      await sleep(5);
    }
    return undefined;
  };
}

/** The controllers' clock is wrong; the cells' clocks are right. */
function jumpClock(milliseconds: number): Injector {
  return async ({ local }) => {
    const path = join(local.directory.path, "faults-clock");
    await writeFile(path, String(milliseconds));
    return { what: "the clock of the controllers", end: () => rm(path) };
  };
}

/** Another candidate takes the lease, and releases it again when the controllers have noticed. */
async function loseLease(world: LongWorld): Promise<Injected | undefined> {
  const before = pidOf(world, "controller");
  if (!(await setHolder(world, `another-${randomUUID()}`))) return undefined;
  for (const deadline = Date.now() + 20_000; Date.now() < deadline && pidOf(world, "controller") === before;) {
    await sleep(100);
  }
  await setHolder(world, "");
  return { what: `the lease of the controller ${before}` };
}

async function setHolder(world: LongWorld, holderIdentity: string): Promise<boolean> {
  const leases = world.cluster.client.resource(coreResources.leases);
  const { items } = await world.repeat(() => leases.list({ namespace: systemNamespace }));
  for (const { metadata } of items) {
    const spec = { holderIdentity, renewTime: new Date().toISOString().replace("Z", "000Z") };
    await world.repeat(() => leases.mergePatch(metadata, { spec }));
  }
  return items.length > 0;
}

/** Cuts the files of a checkpoint's image in half, and restores them. */
async function truncateContent({ storePath }: LongWorld, { checkpointId }: Target): Promise<Injected | undefined> {
  const directory = join(storePath, namespace, "checkpoints", checkpointId, "image");
  const names = await readdir(directory).catch(() => []);
  if (names.length === 0) return undefined;
  const paths = names.map((name) => join(directory, name));
  const contents = await Promise.all(paths.map((path) => readFile(path)));
  await Promise.all(paths.map((path, at) => truncate(path, Math.floor(contents[at]!.length / 2))));
  return {
    what: `the content of ${checkpointId}`,
    end: () => Promise.all(paths.map((path, at) => writeFile(path, contents[at]!))),
  };
}

/** Undefined while the part restarts. */
function pidOf(world: LongWorld, part: PartName): number | undefined {
  try {
    return world.pidOf(part);
  } catch {
    return undefined;
  }
}
