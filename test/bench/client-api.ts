import { request as send } from "undici";
import { Sandbox } from "e2b";
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

/** The waits of clients of the E2B dialect, through the JavaScript SDK and raw HTTP, on a local cluster. */
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
    await world.createSet(setName, stocked);
    const template = { spec: { containers: [{ ...transferProgram, name: "main", image: "python" }] } };
    await world.createSet(transferSet, 1, { template });
    const samples = new Samples();
    for (let turn = 0; turn <= n; turn++) {
      signal.throwIfAborted();
      const measures = await oneTurn(world, options);
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
  const measures: Record<string, number> = {};
  const measure = async <T>(name: string, work: () => Promise<T>): Promise<T> => {
    const elapsed = stopwatch();
    const result = await work();
    measures[name] = elapsed();
    return result;
  };
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
