import { isIPv4 } from "node:net";
import { InvalidArgumentError, Option, type Command } from "commander";
import { parseDuration } from "../base/duration.ts";

/** How the store in a bucket is named, of each cloud. */
export const storeAddresses =
  "s3://bucket/prefix?region=…&endpoint=…&path-style=true, gs://bucket/prefix, azblob://container/prefix?account=…";

/** Which cluster and which namespace. */
export function withClusterFlags(command: Command): Command {
  return command
    .option("-n, --namespace <name>", "the namespace (default: the kubeconfig's)")
    .option("--kubeconfig <file>", "the kubeconfig (default: $KUBECONFIG, ~/.kube/config, the local cluster's)")
    .option("--context <name>", "the kubeconfig's context (default: its current one)");
}

/** @param table what `table` means here */
export function withOutputFlag(command: Command, table = "a table"): Command {
  return command.addOption(
    new Option("-o, --output <format>", `what to print; table is ${table}`)
      .choices(["table", "json", "yaml", "name"])
      .default("table"),
  );
}

/**
 * @param what is waited for
 * @param timeout how long by default
 */
export function withWaitFlags(
  command: Command,
  what: string,
  timeout: { milliseconds: number; shown: string } = { milliseconds: 60_000, shown: "60s" },
): Command {
  command.option("--wait", `wait ${what}`, true).option("--no-wait", "return as soon as the cluster has the wish");
  return withTimeoutFlag(command, timeout);
}

/** For what is not done before the waiting has ended. */
export function withTimeoutFlag(command: Command, timeout = { milliseconds: 60_000, shown: "60s" }): Command {
  return command.addOption(
    new Option("--timeout <duration>", "how long to wait; 0 is for ever")
      .default(timeout.milliseconds, timeout.shown)
      .argParser(timeoutMilliseconds),
  );
}

/** Infinite for `0`: no limit. */
function timeoutMilliseconds(text: string): number {
  const milliseconds = parsed(() => parseDuration(text, "--timeout"));
  if (milliseconds < 0) throw new InvalidArgumentError("It must not be negative.");
  return milliseconds === 0 ? Infinity : milliseconds;
}

/** Collects ranges of IPv4, such as `10.0.0.0/8`. */
export function collectRange(text: string, before: readonly string[] = []): string[] {
  const [, address = "", bits] = /^([\d.]+)\/(\d{1,2})$/.exec(text) ?? [];
  if (!isIPv4(address) || Number(bits) > 32) throw new InvalidArgumentError("Write it as 10.0.0.0/8.");
  return [...before, text];
}

/** Collects `--env NAME=VALUE` over and over. */
export function collectVariable(text: string, before: Record<string, string> = {}): Record<string, string> {
  const at = text.indexOf("=");
  if (at < 1) throw new InvalidArgumentError("Write it as NAME=VALUE.");
  return { ...before, [text.slice(0, at)]: text.slice(at + 1) };
}

/** `true` or `false`. */
export function truth(text: string): boolean {
  if (text === "true") return true;
  if (text === "false") return false;
  throw new InvalidArgumentError("It must be true or false.");
}

/** Items separated by commas. */
export function commaList(text: string): string[] {
  return text
    .split(",")
    .map((item) => item.trim())
    .filter((item) => item !== "");
}

export function wholeNumber(text: string): number {
  if (!/^\d+$/.test(text)) throw new InvalidArgumentError("It must be a whole number, 0 or more.");
  return Number(text);
}

/** 0 is any port that is free. */
export function portNumber(text: string): number {
  const port = wholeNumber(text);
  if (port > 65_535) throw new InvalidArgumentError("There is no such port: 65535 is the last.");
  return port;
}

/** Commander tells of its own error class where and how the option was wrong. */
function parsed<T>(parse: () => T): T {
  try {
    return parse();
  } catch (error) {
    throw new InvalidArgumentError(error instanceof Error ? error.message : String(error));
  }
}
