import { request as send } from "undici";
import { Sandbox } from "e2b";
import { Client as Sandbox0 } from "sandbox0";
import { Sandbox as NativeSandbox } from "../../src/client/index.ts";
import { sandboxSetKind } from "../../src/api/kinds/sandbox-set.ts";
import { sandboxKind } from "../../src/api/kinds/sandbox.ts";
import { refOf } from "../../src/kube/resource-ref.ts";
import { clientSandboxId } from "../../src/api/pod/client-environment.ts";
import { ClientWorld } from "../clients/client-world.ts";
import { type CommandCosts, measureCommands } from "./command-floor.ts";
import { stopwatch } from "./figure.ts";
import { measureIdleClients, type IdleClients } from "./idle-clients.ts";
import { Samples, type Summary } from "./samples.ts";
import { measureTransfers, type Options, transferProgram } from "./transfers.ts";

/** The waits of clients, through E2B's and Sandbox0's packages, Ramet's own client and raw HTTP, on a local cluster. */
export interface ClientApiCosts {
  /** By the name of the measure, ms. */
  milliseconds: Record<string, Summary>;
  /** A command, and what of it is its shell in gVisor; ms. */
  commands: CommandCosts;
  /** MiB per second of 100 MiB; the median of some. */
  transfers: Record<string, number>;
  idle: IdleClients;
}

const setName = "stock";
const transferSet = "transfers";
/** More than a turn takes. */
const stocked = 3;

export async function measureClientApi(n: number, signal: AbortSignal): Promise<ClientApiCosts> {
  const world = await ClientWorld.open();
  try {
    const options = await world.connection();
    const token = await world.createKey(world.namespace, "sandbox0", undefined, "sandbox0");
    const sandbox0 = new Sandbox0({ token, baseUrl: world.apiUrl });
    await world.createSet(setName, stocked);
    const template = { spec: { containers: [{ ...transferProgram, name: "main", image: "python" }] } };
    await world.createSet(transferSet, 1, { template });
    const samples = new Samples();
    for (let turn = 0; turn <= n; turn++) {
      signal.throwIfAborted();
      const measures = { ...(await oneTurn(world, options)), ...(await seedTurn(world, sandbox0)) };
      // The first one is a warm-up.
      if (turn > 0) samples.add(measures);
      process.stderr.write(`\rrequests of clients: ${turn}/${n} `);
    }
    process.stderr.write("\r\x1b[K");
    const commanded = await Sandbox.create(setName, options);
    const commands = await measureCommands(commanded, n);
    await commanded.kill();
    const transfers = await measureTransfers(world, { options, set: transferSet });
    const idle = await measureIdleClients(world, { options, clients: n <= 5 ? 100 : 1_000 });
    const milliseconds = Object.fromEntries([...samples.values.keys()].map((name) => [name, samples.summary(name)!]));
    return { milliseconds, commands, transfers, idle };
  } finally {
    await world.close();
  }
}

/** Each kind of request once. The set is filled again before each request that takes from it. */
async function oneTurn(world: ClientWorld, options: Options): Promise<Record<string, number>> {
  const { measures, measure } = measuring();
  await untilStocked(world);
  const raw = await measure("raw HTTP: POST /sandboxes, stocked", () => createRaw(options));
  await Sandbox.kill(raw, options);
  await untilStocked(world);
  const lifecycle = { onTimeout: "pause", autoResume: true } as const;
  const sandbox = await measure("Sandbox.create, stocked", () => Sandbox.create(setName, { ...options, lifecycle }));
  await measure("first commands.run(true)", () => sandbox.commands.run("true"));
  await measure("commands.run(true)", () => sandbox.commands.run("true"));
  await measure("getInfo", () => sandbox.getInfo());
  const { snapshotId } = await measure("createSnapshot", () => sandbox.createSnapshot());
  const { checkpoint } = await NativeSandbox.connect(sandbox.sandboxId, options);
  const created = await measure("native: checkpoint.create", () => checkpoint.create());
  await measure("native: checkpoint.wait", () => checkpoint.wait(created));
  await checkpoint.delete(created.id);
  await measure("pause", () => sandbox.pause());
  await measure("connect right after the pause", () => sandbox.connect());
  await sandbox.pause();
  await untilAtRest(world, sandbox);
  await measure("connect to a paused sandbox", () => sandbox.connect());
  await sandbox.pause();
  await untilAtRest(world, sandbox);
  await measure("auto-resume, until a file is found", () => sandbox.files.exists("/bin"));
  await untilStocked(world);
  const clone = await measure("Sandbox.create(snapshotId), stocked", () => Sandbox.create(snapshotId, options));
  await measure("kill", () => sandbox.kill());
  await clone.kill();
  await Sandbox.deleteSnapshot(snapshotId, options);
  return measures;
}

/** The flow of Sandbox0: initialize once, claim many. */
async function seedTurn(world: ClientWorld, { sandboxes }: Sandbox0): Promise<Record<string, number>> {
  const { measures, measure } = measuring();
  await untilStocked(world);
  const seed = await measure("Sandbox0: claim, stocked", () => sandboxes.claim(setName));
  const command = ["/bin/sh", "-c", "head -c 20000000 /dev/urandom > /initialized"];
  await seed.cmd("initialize", { command });
  await measure("Sandbox0: pause, 20 MB of files", () => sandboxes.pauseAndWait(seed.id));
  const request = { name: "initialized" };
  const snapshot = await measure("Sandbox0: snapshot of it", () => sandboxes.createRootFSSnapshot(seed.id, request));
  await untilStocked(world);
  const claim = () => sandboxes.claim(setName, { snapshotId: snapshot.id });
  const task = await measure("Sandbox0: claim with snapshot_id, stocked", claim);
  for (const { id } of [seed, task]) await sandboxes.delete(id);
  await sandboxes.deleteRootFSSnapshot(snapshot.id);
  return measures;
}

function measuring() {
  const measures: Record<string, number> = {};
  const measure = async <T>(name: string, work: () => Promise<T>): Promise<T> => {
    const elapsed = stopwatch();
    const result = await work();
    measures[name] = elapsed();
    return result;
  };
  return { measures, measure };
}

async function createRaw({ apiUrl, apiKey }: Options): Promise<string> {
  const { statusCode, body } = await send(`${apiUrl}/sandboxes`, {
    method: "POST",
    headers: { "x-api-key": apiKey, "content-type": "application/json" },
    body: JSON.stringify({ templateID: setName, timeout: 600 }),
  });
  const text = await body.text();
  if (statusCode !== 201) throw new Error(`the client API answered ${statusCode}: ${text}`);
  return (JSON.parse(text) as { sandboxID: string }).sandboxID;
}

/** The set is filled, and nothing of the paused sandbox runs any more. */
async function untilAtRest(world: ClientWorld, { sandboxId }: Sandbox): Promise<void> {
  await untilStocked(world);
  const sandboxes = world.client.of(sandboxKind);
  const { items } = await sandboxes.list({ namespace: "default" });
  const name = items.find(({ metadata }) => clientSandboxId(metadata.uid) === sandboxId)?.metadata.name ?? "";
  await world.cluster.untilPod(name, (pod) => pod === undefined);
}

async function untilStocked(world: ClientWorld): Promise<void> {
  await world.cluster.until(
    refOf(sandboxSetKind),
    { namespace: "default", name: setName },
    (value) => sandboxSetKind.object.parse(value),
    (set) => set?.status?.availableReplicas === stocked,
  );
}
