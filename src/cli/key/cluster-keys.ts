import { rotationEntry, rotationIn, type RotationState } from "../../api/names/key-rotation.ts";
import { type KeyPower, keyPowers } from "../../api/names/system-names.ts";
import { RotationEntries } from "../../backends/kept-secret.ts";
import { delay } from "../../base/clock.ts";
import { RametError } from "../../base/errors.ts";
import type { KubeClient } from "../../kube/kube-client.ts";
import type { Cluster } from "../cluster/cluster.ts";
import { type Io, printLine, writeAll } from "../io.ts";
import { documentOf, table } from "../output/render.ts";

export interface KeysOptions {
  output: "table" | "json" | "yaml" | "name";
}

export interface RotateOptions extends KeysOptions {
  power: KeyPower;
  force?: boolean;
  wait: boolean;
  /** Milliseconds. */
  timeout: number;
}

export async function getKeys(io: Io, { client }: Cluster, options: KeysOptions): Promise<void> {
  const data = await new RotationEntries(client).read(io.signal);
  await print(
    io,
    keyPowers.map((power) => shown(power, data)),
    options,
  );
}

/**
 * `ramet keys rotate`: requests a rotation, or joins the one in progress. The controllers do the work, so an interrupted
 * command can be repeated.
 * @throws RametError `Timeout`, naming the cells that have not confirmed the keys
 */
export async function rotateKey(io: Io, { client }: Cluster, options: RotateOptions): Promise<void> {
  const { power } = options;
  const request = await requestRotation(io, client, power, options.force === true);
  const wait = { power, request, timeout: options.timeout };
  const end = options.wait
    ? await untilDone(io, client, wait).catch((error: unknown) => stays(power, error))
    : undefined;
  await print(io, [shown(power, end ?? (await new RotationEntries(client).read(io.signal)))], options);
}

/** Returns the id of the rotation, which is a new one unless one is in progress. */
async function requestRotation(io: Io, client: KubeClient, power: KeyPower, force: boolean): Promise<string> {
  const { request, state } = rotationIn(await new RotationEntries(client).read(io.signal), power);
  const isPending = request !== undefined && state?.request !== request;
  const isRunning = state !== undefined && state.step !== "done";
  const id = isRunning ? state.request : isPending ? request : io.clock.now().toISOString();
  const data = {
    ...(!isRunning && !isPending && { [rotationEntry(power, "request")]: id }),
    ...(force && { [rotationEntry(power, "force")]: id }),
  };
  if (isRunning || isPending) printLine(io.stderr, `A rotation of the key of the ${power} is in progress.`);
  if (Object.keys(data).length > 0) await new RotationEntries(client).write(data, io.signal);
  return id;
}

interface Wait {
  power: KeyPower;
  request: string;
  timeout: number;
}

async function untilDone(io: Io, client: KubeClient, { power, request, timeout }: Wait): Promise<Entries> {
  const deadline = io.clock.monotonicMilliseconds() + timeout;
  let reported = "";
  for (;;) {
    const data = await new RotationEntries(client).read(io.signal);
    const { state } = rotationIn(data, power);
    const own = state?.request === request ? state : undefined;
    if (own?.step === "done") return data;
    const progress = own === undefined ? "Waiting for a controller" : describe(own);
    if (progress !== reported) printLine(io.stderr, progress);
    reported = progress;
    if (io.clock.monotonicMilliseconds() >= deadline) throw timedOut(power, progress);
    await delay(io.clock, betweenReadsMilliseconds, io.signal);
  }
}

const betweenReadsMilliseconds = 1_000;

function stays(power: KeyPower, cause: unknown): never {
  if (RametError.from(cause).code !== "Canceled") throw cause;
  throw new RametError("Canceled", `Waiting for the rotation of the key of the ${power} was interrupted`, {
    hint: "The controllers continue. Follow the rotation with: ramet keys get",
    cause,
  });
}

function timedOut(power: KeyPower, progress: string): RametError {
  return new RametError("Timeout", `The key of the ${power} was not rotated in time: ${progress}`, {
    hint: "The controllers continue. Delete the sandboxes whose cells cannot be reached, or repeat the command with --force",
  });
}

function describe({ step, waiting, waitingFor }: RotationState): string {
  const what = step === "adding" ? "Cells learn the next key" : "Cells forget the previous key";
  if (waiting === 0) return what;
  const named = waitingFor.slice(0, 5).map(({ namespace, name, why }) => `${namespace}/${name} (${why})`);
  return `${what}; ${waiting} have not confirmed: ${named.join(", ")}${waiting > 5 ? ", …" : ""}`;
}

function shown(power: KeyPower, data: Entries) {
  const { request, state } = rotationIn(data, power);
  if (request !== undefined && state?.request !== request && (state === undefined || state.step === "done"))
    return { key: power, step: "requested" as const, request, waiting: 0, waitingFor: [] };
  return { key: power, step: "never rotated" as const, waiting: 0, waitingFor: [], ...state };
}

async function print(io: Io, keys: ReturnType<typeof shown>[], { output }: KeysOptions): Promise<void> {
  if (output === "json" || output === "yaml") await writeAll(io.stdout, documentOf({ items: keys }, output));
  else if (output === "name") await writeAll(io.stdout, keys.map(({ key }) => `${key}\n`).join(""));
  else {
    const rows = keys.map((one) => [
      one.key,
      one.step,
      "startedAt" in one ? one.startedAt : "",
      ("finishedAt" in one ? one.finishedAt : undefined) ?? "",
      String(one.waiting),
    ]);
    await writeAll(io.stdout, table(["KEY", "STATE", "STARTED", "FINISHED", "NOT CONFIRMED"], rows));
  }
}

type Entries = Record<string, string>;
