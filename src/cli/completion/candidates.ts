import type { Command } from "commander";
import { within } from "../../base/within.ts";
import { exitCodes } from "../exit-codes.ts";
import { type Io, writeAll } from "../io.ts";
import { namesFrom } from "./names.ts";
import { type Position, positionOf } from "./position.ts";

/** `ramet __complete -- WORDS`: prints the candidates for the last word. Never fails: a shell would show the error. */
export async function printCandidates(io: Io, program: Command, words: readonly string[]): Promise<number> {
  const position = positionOf(program, words);
  const { prefix, suffix } = position;
  const names = (await namesAt(io, position)).map((name) => `${name}${suffix}`);
  const last = words.at(-1) ?? "";
  const all = [...position.candidates, ...names];
  const fitting = all.flatMap((one) => (`${prefix}${one}`.startsWith(last) ? [`${prefix}${one}\n`] : []));
  await writeAll(io.stdout, fitting.join(""));
  return exitCodes.ok;
}

async function namesAt(io: Io, { namesOf, cluster }: Position): Promise<string[]> {
  const { clock, signal } = io;
  const listed = namesOf.map(async (source) => {
    try {
      return await within({ clock, milliseconds: 1_000, what: "Listing names", signal }, (inTime) =>
        namesFrom(io, source, cluster, inTime),
      );
    } catch {
      return [];
    }
  });
  return (await Promise.all(listed)).flat();
}
