import { setTimeout as sleep } from "node:timers/promises";
import { Sandbox } from "@e2b/code-interpreter";
import { sandboxSetKind } from "../../src/api/kinds/sandbox-set.ts";
import { refOf } from "../../src/kube/resource-ref.ts";
import { ensureInterpreterImage } from "../../src/local/images/interpreter-image.ts";
import { ClientWorld } from "../clients/client-world.ts";
import { stopwatch } from "./figure.ts";
import { summary, type Summary } from "./samples.ts";

/** Clones of a running code interpreter, through E2B's JavaScript SDK, the client API and the gateway. */
export interface InterpreterClones {
  /** Whether a set has a ready sandbox in which the snapshot is restored. */
  warm: boolean;
  createMilliseconds: Summary;
  /** The first `runCode` in the clone, which prints a variable of the source. */
  runMilliseconds: Summary;
  bothMilliseconds: Summary;
}

const setName = "interpreters";

/** @throws Error if a clone does not have the memory of its source */
export async function measureInterpreter(n: number, signal: AbortSignal): Promise<InterpreterClones[]> {
  await ensureInterpreterImage({ progress: console.error, signal });
  const world = await ClientWorld.open();
  try {
    const options = await world.connection();
    await world.createSet(setName, 1, { template: { spec: { containers: [container] } } });
    const source = await Sandbox.create(setName, options);
    await source.runCode("a = 1");
    const { snapshotId } = await source.createSnapshot();
    await source.kill();
    const clone = async () => cloneOnce(snapshotId, options);
    await untilStocked(world);
    const warm = await measure(n, signal, clone, () => untilStocked(world));
    await world.client.resource(refOf(sandboxSetKind)).delete({ namespace: "default", name: setName });
    const cold = await measure(n, signal, clone, () => Promise.resolve());
    return [
      { warm: true, ...warm },
      { warm: false, ...cold },
    ];
  } finally {
    await world.close();
  }
}

const container = {
  name: "main",
  image: "code-interpreter",
  ports: [{ containerPort: 49999 }],
  startupProbe: { httpGet: { path: "/health", port: 49999 }, periodSeconds: 1, failureThreshold: 120 },
};

interface CloneTimes {
  create: number;
  run: number;
}

async function cloneOnce(snapshotId: string, options: object): Promise<CloneTimes> {
  const elapsed = stopwatch();
  const clone = await Sandbox.create(snapshotId, options);
  const create = elapsed();
  const { logs } = await clone.runCode("print(a)");
  const run = elapsed() - create;
  await clone.kill();
  if (logs.stdout.join("") !== "1\n") throw new Error("a kernel was started instead of cloned");
  return { create, run };
}

/** The first clone is a warm-up and is discarded. */
async function measure(
  n: number,
  signal: AbortSignal,
  clone: () => Promise<CloneTimes>,
  prepare: () => Promise<void>,
): Promise<Omit<InterpreterClones, "warm">> {
  const times: CloneTimes[] = [];
  for (let turn = 0; turn <= n; turn++) {
    signal.throwIfAborted();
    await prepare();
    // The removal of the previous clone must not be measured.
    await sleep(restMilliseconds);
    const measured = await clone();
    if (turn > 0) times.push(measured);
    process.stderr.write(`\rclones of an interpreter: ${turn}/${n} `);
  }
  process.stderr.write("\r\x1b[K");
  return {
    createMilliseconds: summary(times.map(({ create }) => create))!,
    runMilliseconds: summary(times.map(({ run }) => run))!,
    bothMilliseconds: summary(times.map(({ create, run }) => create + run))!,
  };
}

const restMilliseconds = 3_000;

async function untilStocked(world: ClientWorld): Promise<void> {
  await world.cluster.until(
    refOf(sandboxSetKind),
    { namespace: "default", name: setName },
    (value) => sandboxSetKind.object.parse(value),
    (set) => set?.status?.availableReplicas === 1,
  );
}
