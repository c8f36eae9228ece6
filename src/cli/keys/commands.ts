import { type KeyPower, keyPowers } from "../../api/names/system-names.ts";
import { Argument, type Command, InvalidArgumentError } from "commander";
import { withClusterFlags, withOutputFlag, withWaitFlags } from "../options.ts";
import type { Act } from "../report-error.ts";
import type { KeysOptions, RotateOptions } from "./rotate.ts";

/** `ramet keys`. */
export function keysCommands(keys: Command, act: Act): void {
  keys.addHelpText("after", "\nFor API keys of clients, use: ramet key");
  const get = keys.command("get").description("Print when each key was rotated, and the rotations in progress.");
  withOutputFlag(withClusterFlags(get), "one line for each key")
    .action(
      act(async (options: KeysOptions) => {
        const { getKeys } = await import("./rotate.ts");
        return (io) => getKeys(io, options);
      }),
    )
    .addHelpText(
      "after",
      `
Examples:
  $ ramet keys get
  $ ramet keys get -o json
`,
    );
  const rotate = keys
    .command("rotate")
    .description("Replace a key of the cluster while sandboxes run. Joins a rotation that is in progress.")
    .addArgument(
      new Argument("<key>", "cells: operations on cells; gateways: connections to ports")
        .choices(keyPowers)
        .argParser(keyPower),
    )
    .option("--force", "do not wait for cells that cannot be reached; nobody can call them any more");
  withOutputFlag(
    withWaitFlags(withClusterFlags(rotate), "until the old key is no longer accepted", fiveMinutes),
    "a line",
  )
    .action(
      act(async (power: KeyPower, options: RotateOptions) => {
        const { rotateKey } = await import("./rotate.ts");
        return (io) => rotateKey(io, power, options);
      }),
    )
    .addHelpText(
      "after",
      `
Examples:
  $ ramet keys rotate gateways             replace the key of the gateways
  $ ramet keys rotate cells -o json        replace the key of the controllers, and print the state
  $ ramet keys rotate cells --force        end the wait for cells that cannot be reached
`,
    );
}

function keyPower(text: string): KeyPower {
  const found = keyPowers.find((power) => power === text);
  if (found !== undefined) return found;
  throw new InvalidArgumentError(`it must be ${keyPowers.join(" or ")}; an API key is rotated by: ramet key rotate`);
}

const fiveMinutes = { milliseconds: 300_000, shown: "5m" };
