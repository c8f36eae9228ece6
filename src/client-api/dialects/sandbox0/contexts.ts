import { randomBytes } from "node:crypto";
import * as z from "zod";
import { defined } from "../../../base/defined.ts";
import { RametError } from "../../../base/errors.ts";
import type { GuestClient } from "../../../cell/client/guest-client.ts";
import { sendCode } from "./repl.ts";

export const output = {
  output_raw: z.string().optional(),
  stdout: z.string().optional(),
  stderr: z.string().optional(),
  exit_code: z.int().optional(),
  state: z.string().optional(),
};
export const Context = z
  .object({
    id: z.string(),
    type: z.enum(["repl", "cmd"]),
    alias: z.string().optional(),
    running: z.boolean(),
    paused: z.literal(false),
    created_at: z.iso.datetime(),
    ...output,
  })
  .meta({ id: "ContextResponse" });
export type Context = z.infer<typeof Context>;

/** Sends input to the program of a context, or code to its REPL. */
export async function sendInput(guest: GuestClient, tag: string, data: string): Promise<void> {
  const { type, isTerminal } = readId(tag);
  if (type === "repl") await sendCode(guest, { tag, code: data });
  else await guest.sendInput({ tag }, Buffer.from(data), isTerminal ? "pty" : "stdin");
}

/** @throws RametError `InvalidArgument` */
export async function sendSignal(guest: GuestClient, tag: string, signal: string): Promise<void> {
  const name = signal.toUpperCase().replace(/^(SIG)?/, "SIG");
  if (name === "SIGTERM" || name === "SIGKILL") await guest.signal({ tag }, name);
  else if (name === "SIGINT" && readId(tag).isTerminal) await guest.sendInput({ tag }, Buffer.from("\u0003"), "pty");
  else throw new RametError("InvalidArgument", "signal must be SIGTERM or SIGKILL; SIGINT needs a terminal");
}

export const idPattern = /^(cmd|tty|repl)(?:-([a-z0-9]+))?-([0-9a-z]{8,12})-[0-9a-f]{16}$/;

export function newId(kind: string, now: Date): string {
  return `${kind}-${now.getTime().toString(36)}-${randomBytes(8).toString("hex")}`;
}

/** @throws RametError `NotFound`: other commands of the sandbox are no contexts */
export function readId(id: string) {
  const [, kind, alias, time = ""] = idPattern.exec(id) ?? [];
  if (kind === undefined) throw unknownContext();
  const type = kind === "repl" ? ("repl" as const) : ("cmd" as const);
  return { type, alias, isTerminal: kind === "tty", createdAt: new Date(Number.parseInt(time, 36)) };
}

export function unknownContext(): RametError {
  return new RametError("NotFound", "The context does not exist");
}

export function describe(id: string, isRunning: boolean): Context {
  const { type, alias, createdAt } = readId(id);
  return { id, type, running: isRunning, paused: false, created_at: createdAt.toISOString(), ...defined({ alias }) };
}
