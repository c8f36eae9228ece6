import { Argument, InvalidArgumentError, Option } from "commander";
import { parseDuration } from "../../base/duration.ts";
import { defaultKeyLimits } from "../../api/schema/default-key-limits.ts";
import { apiKeyFormats } from "../../api/keys/api-key-text.ts";
import { type KeyPower, keyPowers } from "../../api/names/system-names.ts";
import { getCommand, listCommand } from "../object/commands.ts";
import { parsed, wholeNumber } from "../options.ts";
import type { RametCommand } from "../ramet-command.ts";

/** `ramet key …`: keys of the client API. `ramet keys` is about the cluster's own keys. */
export function keyCommands(program: RametCommand): void {
  const key = program
    .command("key")
    .description("Create, rotate and revoke API keys of clients.")
    .examples(
      "ramet key create ci --service-account agents --create-service-account",
      "ramet key ls",
      "ramet key revoke ci",
    )
    .addHelpText("after", "\nTo replace the keys with which the servers call sandboxes, use: ramet keys");
  const create = key
    .command("create")
    .description("Create an API key of a service account and print it. It is not stored and cannot be shown again.")
    .argument("<name>", "the name of the API key")
    .requiredOption("--service-account <name>", "the service account whose rights the key has")
    .option(
      "--create-service-account",
      "create the service account if it is missing, and bind it to the ClusterRole ramet-client in this namespace",
    )
    .option("--max-sandboxes <n>", "how many sandboxes of the key can exist at a time (default: no limit)", wholeNumber)
    .option(
      "--max-requests-per-second <n>",
      `how many requests it can send ${orDefault("requestsPerSecond")}`,
      wholeNumber,
    )
    .option(
      "--max-concurrent-requests <n>",
      `how many requests can be in progress ${orDefault("concurrentRequests")}`,
      wholeNumber,
    )
    .option(
      "--max-bytes-in-flight <quantity>",
      `how much the client API holds for it at a time ${orDefault("bytesInFlight")}`,
    )
    .option("--max-snapshot-bytes <quantity>", "the size of its snapshots, such as 20Gi (default: no limit)");
  withKeyFlags(create)
    .clusterFlags()
    .examples(
      "ramet key create ci --service-account agents",
      "export E2B_API_KEY=$(ramet key create ci --service-account agents --create-service-account)",
      "ramet key create ci --service-account agents --max-sandboxes 20 -o json",
    )
    .runs(async () => (await import("./api-key.ts")).createKey, "name");
  listCommand(key, "key");
  getCommand(key, "key");
  const rotate = key
    .command("rotate")
    .description("Give an API key a new value and print it. The previous value works until the grace period ends.")
    .argument("<name>", "the API key")
    .addOption(
      new Option("--grace <duration>", "how long the previous value works, such as 10m or 2d; 0 ends it now")
        .default(3_600_000, "1h")
        .argParser((text) => parsed(() => parseDuration(text, "--grace"))),
    );
  withKeyFlags(rotate)
    .clusterFlags()
    .examples("ramet key rotate ci", "ramet key rotate ci --grace 0 -o json")
    .usesCluster(async () => (await import("./api-key.ts")).rotateKey, "name");
  key
    .command("revoke")
    .alias("rm")
    .description("Delete one or more API keys. All their values stop working; sandboxes that they created are kept.")
    .argument("<name...>", "the API keys")
    .option("--ignore-not-found", "ignore keys that do not exist")
    .clusterFlags()
    .examples("ramet key revoke ci")
    .usesCluster(async () => (await import("./api-key.ts")).revokeKeys, "names");
}

function orDefault(limit: keyof typeof defaultKeyLimits): string {
  return `(default: ${defaultKeyLimits[limit]})`;
}

function withKeyFlags(command: RametCommand): RametCommand {
  return command
    .choice(
      "--format <format>",
      "e2b and sandbox0: as their SDKs expect it; plain: 48 hexadecimal digits",
      apiKeyFormats,
      "e2b",
    )
    .formats(["table", "json"], "the output format; table prints only the key");
}

export function keysCommands(program: RametCommand): void {
  const keys = program
    .command("keys")
    .description("Rotate the cluster's keys, which sign calls to cells.")
    .examples("ramet keys rotate gateways", "ramet keys get")
    .addHelpText("after", "\nFor API keys of clients, use: ramet key");
  keys
    .command("get")
    .description("Print when each key was rotated, and the rotations in progress.")
    .clusterFlags()
    .outputFlag("one line for each key")
    .examples("ramet keys get", "ramet keys get -o json")
    .usesCluster(async () => (await import("./cluster-keys.ts")).getKeys);
  keys
    .command("rotate")
    .description("Replace a key of the cluster while sandboxes run. Joins a rotation that is in progress.")
    .addArgument(
      new Argument("<key>", "cells: operations on cells; gateways: connections to ports")
        .choices(keyPowers)
        .argParser(keyPower),
    )
    .option("--force", "do not wait for cells that cannot be reached; nobody can call them any more")
    .clusterFlags()
    .waitFlags("until the old key is no longer accepted", { milliseconds: 300_000, shown: "5m" })
    .outputFlag("a line")
    .examples(
      "ramet keys rotate gateways             replace the key of the gateways",
      "ramet keys rotate cells -o json        replace the key of the controllers, and print the state",
      "ramet keys rotate cells --force        end the wait for cells that cannot be reached",
    )
    .usesCluster(async () => (await import("./cluster-keys.ts")).rotateKey, "power");
}

function keyPower(text: string): KeyPower {
  const found = keyPowers.find((power) => power === text);
  if (found !== undefined) return found;
  throw new InvalidArgumentError(`it must be ${keyPowers.join(" or ")}; an API key is rotated by: ramet key rotate`);
}
