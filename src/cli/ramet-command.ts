import { Command, Option } from "commander";
import { volumesOnRestore } from "../api/names/volumes-on-restore.ts";
import type { Cluster, ClusterOptions } from "./cluster/cluster.ts";
import { exitCodes } from "./report-error.ts";
import type { Io } from "./io.ts";
import { timeoutMilliseconds } from "./options.ts";

/** Loads the implementation of a command when it is called, so that `--help` loads nothing. It returns its exit code; without one, 0. */
type Load<Options> = () => Promise<(io: Io, options: Options) => Promise<number> | Promise<void>>;

/** Wraps a command's implementation for commander. @param names the options that the command's arguments become, in their order */
export type Act = <Options extends object>(
  load: Load<Options>,
  ...names: readonly (keyof Options & string)[]
) => (...given: unknown[]) => Promise<void>;

/** A command of `ramet`, with the options that several commands share. Its subcommands are of the same class. */
export class RametCommand extends Command {
  readonly #act: Act;

  constructor(act: Act, name?: string) {
    super(name);
    this.#act = act;
  }

  override createCommand(name?: string): RametCommand {
    return new RametCommand(this.#act, name);
  }

  /** Sets the implementation. @param names the options that the command's arguments become, in their order */
  runs<Options extends object>(load: Load<Options>, ...names: readonly (keyof Options & string)[]): this {
    return this.action(this.#act(load, ...names));
  }

  /** Sets an implementation that uses the cluster which the options select. */
  usesCluster<Options extends object>(
    load: () => Promise<(io: Io, cluster: Cluster, options: Options) => Promise<number> | Promise<void>>,
    ...names: readonly (keyof Options & string)[]
  ): this {
    return this.runs<Options & ClusterOptions>(
      async () => {
        const run = await load();
        const { withCluster } = await import("./cluster/cluster.ts");
        return (io, options) =>
          withCluster(io, options, async (cluster) => (await run(io, cluster, options)) ?? exitCodes.ok);
      },
      ...names,
    );
  }

  /** Adds an option with a fixed set of values. @param value the default */
  choice(flags: string, description: string, choices: readonly string[], value?: string): this {
    const option = new Option(flags, description).choices(choices);
    return this.addOption(value === undefined ? option : option.default(value));
  }

  /** Adds the options that select a cluster and a namespace. */
  clusterFlags(): this {
    return this.option("-n, --namespace <name>", "the namespace (default: the kubeconfig's)")
      .option("--kubeconfig <file>", "the kubeconfig (default: $KUBECONFIG, ~/.kube/config, the local cluster's)")
      .option("--context <name>", "the kubeconfig's context (default: the current one)");
  }

  /** Adds the flags of commands that enter a sandbox. */
  accessFlags(): this {
    return this.option(
      "--gateway <url>",
      "the gateway's address (default: $RAMET_GATEWAY, else the address that the cluster publishes)",
    )
      .addOption(
        new Option(
          "--as-service-account <name>",
          "request a token of this service account, NAME or NAMESPACE/NAME (default: $RAMET_AS_SERVICE_ACCOUNT)",
        ).conflicts("tokenFile"),
      )
      .option("--token-file <file>", "a file with a token for the gateway (default: $RAMET_GATEWAY_TOKEN)")
      .addOption(
        new Option(
          "--direct",
          "for operators: connect to the sandbox's Pod with the Secrets of the controllers, without a gateway",
        ).conflicts(["gateway", "tokenFile", "asServiceAccount"]),
      );
  }

  /** Adds the formats of all kinds. @param table what `table` means here */
  outputFlag(table = "a table"): this {
    return this.formats(["table", "json", "yaml", "name"], `the output format; table prints ${table}`);
  }

  /** Adds the output formats; the first one is the default. */
  formats(choices: readonly string[] = ["table", "json"], description = "the output format"): this {
    return this.choice("-o, --output <format>", description, choices, choices[0]);
  }

  /**
   * @param what the end of the wait
   * @param timeout the default timeout
   */
  waitFlags(what: string, timeout?: { milliseconds: number; shown: string }): this {
    return this.option("--wait", `wait ${what}`, true)
      .option("--no-wait", "return once the cluster has accepted the request")
      .timeoutFlag(timeout);
  }

  /** Adds the timeout of commands that always wait. */
  timeoutFlag(timeout = { milliseconds: 60_000, shown: "60s" }): this {
    return this.addOption(
      new Option(
        "--timeout <duration>",
        "how long to wait, such as 90s or 2m; a number alone is seconds; 0 means forever",
      )
        .default(timeout.milliseconds, timeout.shown)
        .argParser(timeoutMilliseconds),
    );
  }

  /** Adds the flag for the volumes of sandboxes that are restored from a checkpoint without their data. */
  volumesFlag(): this {
    return this.choice(
      "--volumes <choice>",
      "the volumes that are PersistentVolumeClaims and that the checkpoint does not contain: Empty for new claims, Shared for the source's",
      volumesOnRestore,
    );
  }

  /** Ends the command's help with an `Examples:` block of one command per line. */
  examples(...examples: [string, ...string[]]): this {
    return this.addHelpText("after", `\nExamples:\n${examples.map((example) => `  $ ${example}\n`).join("")}`);
  }
}
