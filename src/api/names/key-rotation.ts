import * as z from "zod";
import { parsedJson } from "../../base/tolerant-parse.ts";
import { type KeyPower, systemNamespace } from "./system-names.ts";

/** The ConfigMap with the requested rotations and their states. It holds no secret. */
export const rotationConfigMap = { namespace: systemNamespace, name: "ramet-key-rotation" };

/**
 * Entries of the ConfigMap. `<power>.request`: any text; another text requests another rotation. `<power>.force`: the request
 * that shall not wait for unreachable cells. `<power>.state`: written by the controllers.
 */
export const rotationEntry = (power: KeyPower, entry: "request" | "force" | "state"): string => `${power}.${entry}`;

/** A cell that has not confirmed the keys. */
export const WaitingCell = z.object({ namespace: z.string(), name: z.string(), why: z.string() });
export type WaitingCell = z.infer<typeof WaitingCell>;

export const RotationState = z.object({
  /** The rotation request that this state answers. */
  request: z.string(),
  /** `adding`: cells learn the next key. `removing`: the next key signs, and cells forget the previous one. */
  step: z.enum(["adding", "removing", "done"]),
  startedAt: z.string(),
  finishedAt: z.string().optional(),
  /** The key that signs, base64url. */
  publicKey: z.string(),
  /** At most a hundred; `done` with some of them: the rotation was forced. */
  waitingFor: z.array(WaitingCell).default([]),
  /** How many there are in all. */
  waiting: z.int().default(0),
});
export type RotationState = z.infer<typeof RotationState>;

/** Reads the ConfigMap's entries about one key. An entry that cannot be read counts as absent. */
export function rotationIn(
  data: Readonly<Record<string, string>>,
  power: KeyPower,
): { request?: string | undefined; force?: string | undefined; state?: RotationState | undefined } {
  return {
    request: data[rotationEntry(power, "request")],
    force: data[rotationEntry(power, "force")],
    state: parsedJson(RotationState, data[rotationEntry(power, "state")]),
  };
}
