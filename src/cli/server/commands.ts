import { InvalidArgumentError, Option, type Command } from "commander";
import { parseDuration } from "../../base/duration.ts";
import { originUrl, parsed, portNumber, wholeNumber, withExamples } from "../options.ts";
import {
  besideOption,
  collectEarlierImage,
  collectNetwork,
  collectRange,
  engineOption,
  flagsOfCells,
  importVolumesHelp,
  namespaceSelectorHelp,
  secondOrMore,
  storeAddresses,
  withEgressFlags,
  withCellFlags,
  withQuotaFlags,
  withServedNamespaceFlag,
  withRegistryFlags,
} from "../server-options.ts";
import type { Act } from "../report-error.ts";
import type { ClientApiOptions } from "./client-api.ts";
import type { ControllerOptions } from "./controller.ts";
import type { GatewayOptions } from "./gateway.ts";

/** The servers: `ramet controller`, `ramet gateway`, `ramet client-api` and `ramet cell`. */
export function serverCommands(program: Command, act: Act): void {
  controllerCommand(program, act);
  gatewayCommand(program, act);
  clientApiCommand(program, act);
  cellCommand(program, act);
}

function cellCommand(program: Command, act: Act): void {
  const cell = program
    .command("cell")
    .description("Run the cell of a sandbox Pod, configured by environment variables.")
    .action(
      act(async () => {
        const { runCell } = await import("./cell.ts");
        return runCell;
      }),
    );
  const exec = cell
    .command("exec")
    .description("Run the command of a kubelet's probe or hook in the sandbox of this container's cell.")
    .argument("<command...>", "the command and its arguments, after --")
    .option("--at-start", "wait for the sandbox; do nothing if it was restored from a checkpoint")
    .action(
      act(async (command: [string, ...string[]], options: { atStart?: boolean }) => {
        const { execBesideCell } = await import("./cell-exec.ts");
        return (io) => execBesideCell(io, { ...options, command });
      }),
    );
  withExamples(exec, "ramet cell exec -- cat /tmp/ready", "ramet cell exec --at-start -- /bin/warm-up");
  const setup = cell
    .command("setup")
    .description("Copy the programs that a cell runs (gVisor, guest, link) into a directory, for the cell image.")
    .argument("<directory>", "the target directory; a cell uses /usr/local/bin")
    .action(
      act(async (directory: string) => {
        const { setUpCell } = await import("./cell-exec.ts");
        return (io) => setUpCell(io, directory);
      }),
    );
  withExamples(setup, "ramet cell setup /usr/local/bin");
}

function controllerCommand(program: Command, act: Act): void {
  withRegistryFlags(
    withCellFlags(
      withQuotaFlags(withEgressFlags(withServedNamespaceFlag(withServerOptions(program.command("controller"))))),
    ),
  )
    .description("Run the controllers.")
    .option("--store-directory <directory>", "the directory of the store, which every node that runs cells mounts")
    .option(
      "--no-verify-restores",
      "do not hash content at each restore from a directory: trust everyone who can write there",
    )
    .option("--store <address>", `the address of the store, instead of a directory: ${storeAddresses}`)
    .option("--encryption-secret <name>", "encrypt checkpoints with the key in this Secret of ramet-system")
    .option("--import-volumes", importVolumesHelp)
    .option(
      "--cell-image <image>",
      "the image that contains the cell, gVisor, guest and link; required without --beside",
    )
    .option("--cell-engine <id>", "the engine of that image (default: its cells report it)", engineOption)
    .option(
      "--earlier-cell-image <engine=image...>",
      "images of earlier engines, besides those that the cluster remembers",
      collectEarlierImage,
    )
    .option(
      "--concurrent-upgrades <count>",
      "how many named snapshots are captured again at the same time after an upgrade (default: 2; 0: none)",
      wholeNumber,
    )
    .addOption(
      new Option(
        "--engine-check-interval <duration>",
        "the pause between two checks for cell images of earlier engines that nothing needs (default: 10m)",
      ).argParser(secondOrMore("--engine-check-interval")),
    )
    .addOption(besideOption().conflicts(flagsOfCells))
    .option("--install-crds", "install or update the CRDs first")
    .option("--leader-elect", "elect a leader: of several replicas, one works")
    .option("--dns-upstream <ip...>", "the resolvers for sandboxes' DNS queries (default: the Pod's resolvers)")
    .option(
      "--cluster-domain <name>",
      "the cluster's DNS domain, whose names sandboxes cannot resolve (default: cluster.local)",
    )
    .option("--cluster-range <cidr...>", "IPv4 ranges that are denied to sandboxes (default: none)", collectRange)
    .option("--namespace-selector <selector>", namespaceSelectorHelp)
    .option("--concurrency <number>", "the number of concurrent reconciles per kind (default: 16)", wholeNumber)
    .option(
      "--step-cache-bytes <number>",
      "the limit for captured recipe steps in each namespace (default: 21474836480, 20 GiB)",
      wholeNumber,
    )
    .action(
      act(async (options: ControllerOptions) => {
        const { runController } = await import("./controller.ts");
        return (io) => runController(io, options);
      }),
    )
    .addHelpText(
      "after",
      `
Examples:
  $ ramet controller --store-directory /var/lib/ramet --cell-image example/cell:1 --install-crds --leader-elect
  $ ramet controller --store 's3://checkpoints/ramet?region=eu-central-1' --cell-image example/cell:1 --leader-elect
  $ ramet controller --beside=openkruise --leader-elect
`,
    );
}

function gatewayCommand(program: Command, act: Act): void {
  withServedNamespaceFlag(withServerOptions(program.command("gateway")))
    .description(
      "Proxy HTTP and WebSocket traffic to sandbox ports for authorized clients. Stateless: run any number of replicas.",
    )
    .option("--port <port>", "the port for HTTP and WebSocket connections; 0 opens a free port", portNumber, 8080)
    .option("--address <ip>", "the IP address to listen on", "127.0.0.1")
    .option(
      "--shutdown-delay <seconds>",
      "how long to accept connections after SIGTERM, so that load balancers can remove it",
      wholeNumber,
      0,
    )
    .option("--max-connections <number>", "the limit for connections of all clients (default: 10000)", wholeNumber)
    .option(
      "--max-connections-per-client <number>",
      "the limit for one client address, or one IPv6 /64 network (default: 2500)",
      wholeNumber,
    )
    .option(
      "--max-connections-per-namespace <number>",
      "the limit for requests and upgraded connections to one namespace (default: 5000)",
      wholeNumber,
    )
    .option(
      "--max-connections-per-sandbox <number>",
      "the limit for requests and upgraded connections to one sandbox (default: 1000)",
      wholeNumber,
    )
    .option(
      "--trusted-proxy <cidr...>",
      "the networks of load balancers, whose X-Forwarded-For names the client (default: none)",
      collectNetwork,
    )
    .option(
      "--accept-tokens-by-review-only",
      "ask the API server about every token, also about tokens that its service account keys did not sign",
    )
    .option("--tls-certificate <file>", "serve TLS with this certificate and its chain, in PEM (default: no TLS)")
    .option("--tls-key <file>", "the key of the certificate, in PEM")
    .option("--tls-optional", "also accept connections without TLS on the port")
    .option(
      "--client-api <url>",
      "the address of `ramet client-api`: proxy requests that name no sandbox to it (default: refuse them)",
      originUrl,
    )
    .option(
      "--no-exec",
      "accept tokens for gateways only; commands and files then also need the sandbox's own access token",
    )
    .action(
      act(async (options: GatewayOptions) => {
        const { runGatewayProcess } = await import("./gateway.ts");
        return (io) => runGatewayProcess(io, options);
      }),
    )
    .addHelpText(
      "after",
      `
Examples:
  $ ramet gateway --port 8080
  $ token=$(kubectl create token agent --audience ramet-gateway)
  $ curl -H "Ramet-Access-Token: $token" http://8000-default--dev.localhost:8080/
  $ ramet gateway --client-api http://127.0.0.1:8081
`,
    );
}

function clientApiCommand(program: Command, act: Act): void {
  withServedNamespaceFlag(withServerOptions(program.command("client-api")))
    .description("Serve the HTTP APIs of E2B's SDKs and AgentTier's client. Stateless: run any number of replicas.")
    .option("--port <port>", "the port for HTTP connections; 0 opens a free port", portNumber, 8081)
    .option("--address <ip>", "the IP address to listen on", "127.0.0.1")
    .option("--domain <name>", "the domain of the sandboxes' host names (default: the clients' own setting)")
    .option(
      "--gateway <url>",
      "a gateway, for uploads to sandboxes, their metrics and logs (default: the address that gateways publish)",
    )
    .option(
      "--template-alias <name=template...>",
      "names that clients use for templates, sets or snapshots, such as base=python",
      collectAlias,
    )
    .option("--max-timeout <duration>", "the longest timeout that a client can request (default: 30d)", longestTimeout)
    .option(
      "--shutdown-delay <seconds>",
      "how long to accept connections after SIGTERM, so that load balancers can remove it",
      wholeNumber,
      0,
    )
    .action(
      act(async (options: ClientApiOptions) => {
        const { runClientApiProcess } = await import("./client-api.ts");
        return (io) => runClientApiProcess(io, options);
      }),
    )
    .addHelpText(
      "after",
      `
Examples:
  $ ramet client-api --port 8081 --template-alias base=python
  $ export E2B_API_URL=http://127.0.0.1:8081 E2B_API_KEY=$(ramet key create agent --service-account agent)
  $ export AGENTTIER_API_URL=$E2B_API_URL AGENTTIER_API_KEY=$E2B_API_KEY
`,
    );
}

function collectAlias(text: string, before: ReadonlyMap<string, string> = new Map()): ReadonlyMap<string, string> {
  const [, name, template] = /^([^=]+)=([^=]+)$/.exec(text) ?? [];
  if (name === undefined || template === undefined) throw new InvalidArgumentError("write it as name=template");
  return new Map([...before, [name, template]]);
}

function longestTimeout(text: string): number {
  return parsed(() => parseDuration(text));
}

/** The options of every server that connects to the API server. */
function withServerOptions(command: Command): Command {
  return command
    .option(
      "--metrics-port <port>",
      "serve /metrics, /livez, /healthz and /readyz on this port (default: none)",
      portNumber,
    )
    .option("--metrics-address <ip>", "the IP address to listen on", "127.0.0.1")
    .option(
      "--kubeconfig <file>",
      "the kubeconfig (default: the Pod's service account, else $KUBECONFIG, ~/.kube/config)",
    )
    .option("--context <name>", "the kubeconfig's context (default: the current one)")
    .addOption(
      new Option("--log-level <level>", "the lowest level to log, as JSON lines on stderr")
        .choices(["debug", "info", "warn", "error"])
        .default("info"),
    );
}
