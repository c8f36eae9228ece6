import * as z from "zod";
import { defined } from "../../../base/defined.ts";
import { RametError, unlessCode } from "../../../base/errors.ts";
import { CollectedBytes } from "../../../base/http.ts";
import type { GuestClient, StartProcess } from "../../../cell/client/guest-client.ts";
import { causeOfLoss } from "../../../operations/cause-of-loss.ts";
import { needs } from "../../keys/needs.ts";
import { holdOutput, runCommand } from "../../service/run-command.ts";
import {
  type Call,
  envelope,
  guestFor,
  route,
  type Sandbox0,
  type Sandbox0Route,
  sandboxOf,
  socketRoute,
  success,
} from "./call.ts";
import {
  Context,
  describe,
  idPattern,
  newId,
  output,
  readId,
  sendInput,
  sendSignal,
  unknownContext,
} from "./contexts.ts";
import { execute, replCommand } from "./repl.ts";
import { Input, NewContext, Resize, Signal } from "./schemas.ts";

/** A context is a command of the sandbox, whose tag is the id of the context. No server holds its state. */
const contexts = "/api/v1/sandboxes/:id/contexts";
const context = `${contexts}/:ctx`;

/** The limit of all output of one command. */
const mostOutputBytes = 8 * 1024 * 1024;

export const contextRoutes: readonly Sandbox0Route[] = [
  route("POST", contexts, {
    summary: "Starts a command or a REPL, and waits for the end of a command if that is requested.",
    needs: needs.enter,
    body: NewContext,
    answers: { 201: envelope(Context) },
    handle: create,
  }),
  route("GET", contexts, {
    summary: "Lists the commands and REPLs that run.",
    needs: needs.enter,
    answers: { 200: envelope(z.object({ contexts: z.array(Context) })) },
    handle: async (sandbox0, call) => success({ contexts: await running(await guestFor(sandbox0, call)) }),
  }),
  route("GET", context, {
    summary: "Describes a command or REPL that runs, or that has just ended, with its output.",
    needs: needs.enter,
    answers: { 200: envelope(Context) },
    handle: async (sandbox0, call) => {
      const { ctx = "" } = call.params;
      const guest = await guestFor(sandbox0, call);
      const found = (await running(guest)).find(({ id }) => id === ctx);
      return success(found ?? (await ended(guest, ctx, call)));
    },
  }),
  route("DELETE", context, {
    summary: "Kills a command or a REPL.",
    needs: needs.enter,
    answers: { 200: envelope(z.object({ deleted: z.boolean() })) },
    handle: async (sandbox0, call) => {
      await (await guestFor(sandbox0, call)).signal(tagOf(call), "SIGKILL");
      return success({ deleted: true });
    },
  }),
  route("POST", `${context}/exec`, {
    summary: "Executes code in a REPL, and returns what it prints.",
    needs: needs.enter,
    body: Input,
    answers: { 200: envelope(z.object({ ...output, output_raw: z.string() })) },
    handle: async (sandbox0, call) => {
      const { request, signal } = call;
      const { tag } = tagOf(call);
      if (readId(tag).type !== "repl") throw new RametError("InvalidArgument", "Only a REPL executes code");
      const guest = await guestFor(sandbox0, call);
      const executing = { tag, code: call.body.data, mostBytes: mostOutputBytes, held: request.held, signal };
      const { text, exitCode } = await execute(guest, executing);
      return success({ output_raw: text, stdout: text, stderr: "", exit_code: exitCode, state: "completed" });
    },
  }),
  route("POST", `${context}/input`, {
    summary: "Sends input to a command, or code to a REPL.",
    needs: needs.enter,
    body: Input,
    answers: { 200: envelope(z.object({ written: z.boolean() })) },
    handle: async (sandbox0, call) => {
      await sendInput(await guestFor(sandbox0, call), tagOf(call).tag, call.body.data);
      return success({ written: true });
    },
  }),
  route("POST", `${context}/resize`, {
    summary: "Resizes the terminal of a command.",
    needs: needs.enter,
    body: Resize,
    answers: { 200: envelope(z.object({ resized: z.boolean() })) },
    handle: async (sandbox0, call) => {
      const { rows, cols: columns } = call.body;
      await (await guestFor(sandbox0, call)).resize(tagOf(call), { rows, columns });
      return success({ resized: true });
    },
  }),
  route("POST", `${context}/signal`, {
    summary: "Sends SIGTERM or SIGKILL to a command; SIGINT to one with a terminal.",
    needs: needs.enter,
    body: Signal,
    answers: { 200: envelope(z.object({ signaled: z.boolean() })) },
    handle: async (sandbox0, call) => {
      await sendSignal(await guestFor(sandbox0, call), tagOf(call).tag, call.body.signal);
      return success({ signaled: true });
    },
  }),
  route("POST", `${context}/restart`, {
    summary: "Kills a command or a REPL that runs, and starts it again with its id, directory and variables.",
    needs: needs.enter,
    answers: { 200: envelope(Context) },
    handle: async (sandbox0, call) => {
      const { tag } = tagOf(call);
      await restart(await guestFor(sandbox0, call), tag, call.signal);
      return success(describe(tag, true));
    },
  }),
  socketRoute(`${context}/ws`, "Follows a context by a WebSocket, which accepts input, resize and signal."),
];

async function create(sandbox0: Sandbox0, call: Call<typeof NewContext>) {
  const { body, signal, request } = call;
  const start = startOf(body, sandbox0.service.clock.now());
  const { tag: id } = start;
  const guest = await guestFor(sandbox0, call);
  const { held } = request;
  if (body.type === "cmd" && body.wait_until_done) {
    const text = new Output();
    const running = { start, mostBytes: mostOutputBytes, held, signal };
    const { exitCode } = await runCommand(guest, running, (stream, data) => {
      text.add(stream, data);
    }).catch(async (error: unknown) => {
      throw await causeOfLoss(sandbox0.service.objects, await sandboxOf(sandbox0, call), error, signal);
    });
    return success({ ...describe(id, false), ...text.texts(), exit_code: exitCode, state: "completed" });
  }
  await started(guest, { ...start, ...(start.pty === undefined && { stdin: true }) }, signal);
  const code = body.type === "repl" ? body.repl?.input : undefined;
  if (code === undefined) return success(describe(id, true));
  const { text } = await execute(guest, { tag: id, code, mostBytes: mostOutputBytes, held, signal });
  return success({ ...describe(id, true), output_raw: text, stdout: text });
}

/** @throws RametError `InvalidArgument` */
function startOf(body: NewContext, now: Date): StartProcess & { tag: string } {
  const { pty_size: size, ttl_sec: ttl = 0, env_vars: environment = {} } = body;
  if (body.idle_timeout_sec) throw new RametError("InvalidArgument", "idle_timeout_sec is not supported: set ttl_sec");
  const { kind, command, args } = body.type === "repl" ? replOf(body) : commandOf(body);
  return {
    command,
    args,
    environment,
    tag: newId(kind, now),
    ...defined({
      workingDirectory: body.cwd,
      pty: kind === "tty" && size ? { rows: size.rows, columns: size.cols } : undefined,
      timeoutMilliseconds: ttl === 0 ? undefined : ttl * 1000,
    }),
  };
}

function replOf({ repl: { alias = "python" } = {} }: NewContext) {
  const [command = "", ...args] = replCommand(alias);
  return { kind: `repl-${alias}`, command, args };
}

function commandOf({ cmd, pty_size: size }: NewContext) {
  const [command, ...args] = cmd?.command ?? [];
  if (command === undefined) throw new RametError("InvalidArgument", "cmd is missing, which has the command");
  return { kind: size === undefined ? "cmd" : "tty", command, args };
}

/** @throws RametError `NotFound` if it does not run */
async function restart(guest: GuestClient, tag: string, signal: AbortSignal): Promise<void> {
  const found = (await guest.listProcesses()).find((each) => each.tag === tag);
  if (found === undefined) throw unknownContext();
  const { pid, ...start } = found;
  await guest.signal({ pid }, "SIGKILL").catch(unlessCode("NotFound"));
  // A process that holds its output open keeps the connection until the command ends, not longer.
  for await (const event of guest.connect({ pid }, signal)) if (event.type === "end") break;
  // Another request has restarted it meanwhile.
  if ((await guest.listProcesses()).some((each) => each.tag === tag && each.pid !== pid)) return;
  await started(guest, { ...start, ...(readId(tag).isTerminal ? { pty: defaultSize } : { stdin: true }) }, signal);
}

const defaultSize = { rows: 24, columns: 80 };

/** Leaves the command running. */
async function started(guest: GuestClient, start: StartProcess, signal: AbortSignal): Promise<void> {
  for await (const event of guest.startProcess(start, signal)) if (event.type === "start") return;
}

async function running(guest: GuestClient): Promise<Context[]> {
  const processes = await guest.listProcesses();
  return processes.flatMap(({ tag = "" }) => (idPattern.test(tag) ? [describe(tag, true)] : []));
}

/** @throws RametError `NotFound` */
async function ended(guest: GuestClient, id: string, { request: { held }, signal }: Call): Promise<Context> {
  readId(id);
  const text = new Output();
  for await (const event of guest.connect({ tag: id }, signal)) {
    if (event.type === "end")
      return { ...describe(id, false), ...text.texts(), exit_code: event.exitCode, state: "completed" };
    if (event.type !== "data") continue;
    holdOutput(held, event.data.length);
    text.add(event.stream, event.data);
  }
  throw unknownContext();
}

function tagOf({ params: { ctx = "" } }: Pick<Call, "params">): { tag: string } {
  readId(ctx);
  return { tag: ctx };
}

/** The output of a command, in order and by stream. */
class Output {
  readonly #collected = {
    output_raw: new CollectedBytes(),
    stdout: new CollectedBytes(),
    stderr: new CollectedBytes(),
  };

  add(stream: "stdout" | "stderr" | "pty", data: Buffer): void {
    this.#collected.output_raw.add(data);
    this.#collected[stream === "stderr" ? "stderr" : "stdout"].add(data);
  }

  texts(): Record<"output_raw" | "stdout" | "stderr", string> {
    const { output_raw: raw, stdout, stderr } = this.#collected;
    const [a = "", b = "", c = ""] = [raw, stdout, stderr].map((each) => Buffer.concat([...each.blocks()]).toString());
    return { output_raw: a, stdout: b, stderr: c };
  }
}
