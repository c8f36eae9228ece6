import { Option, type Command } from "commander";
import { collectRange, portNumber, storeAddresses, wholeNumber } from "../options.ts";
import type { Act } from "../report-error.ts";
import type { ControllerOptions } from "./controller.ts";
import type { GatewayOptions } from "./gateway.ts";

/** What runs in the cluster: `ramet controller`, `ramet gateway` and `ramet cell`. */
export function serverCommands(program: Command, act: Act): void {
  controllerCommand(program, act);
  gatewayCommand(program, act);
  cellCommand(program, act);
}

function cellCommand(program: Command, act: Act): void {
  const cell = program
    .command("cell")
    .description("Run the cell of a sandbox Pod. Its setting comes from the environment.")
    .action(
      act(async () => {
        const { runCell } = await import("./cell.ts");
        return runCell;
      }),
    );
  cell
    .command("exec")
    .description("Run a command of a kubelet's probe or hook in the sandbox whose cell runs in this container.")
    .argument("<command...>", "the command and its arguments, after --")
    .option("--at-start", "wait for the sandbox; do nothing in one that goes on from a checkpoint")
    .action(
      act(async (command: [string, ...string[]], options: { atStart?: boolean }) => {
        const { execBesideCell } = await import("./cell-exec.ts");
        return (io) => execBesideCell(io, { ...options, command });
      }),
    );
  cell
    .command("setup")
    .description("Put the programs that a cell runs (gVisor, guest, link) into a folder, for the cell's image.")
    .argument("<folder>", "where they go; a cell looks in /usr/local/bin")
    .action(
      act(async (directory: string) => {
        const { setUpCell } = await import("./cell-exec.ts");
        return (io) => setUpCell(io, directory);
      }),
    );
}

function controllerCommand(program: Command, act: Act): void {
  withServerOptions(program.command("controller"))
    .description("Run the controllers.")
    .option("--store-directory <folder>", "a folder where checkpoints are kept; every node that runs cells has it too")
    .option("--store <address>", `or where in a bucket: ${storeAddresses}`)
    .requiredOption("--cell-image <image>", "the image with the cell, gVisor, guest and link")
    .option("--install-crds", "bring the CRDs to this version first")
    .option("--leader-elect", "run several; one of them works")
    .option("--dns-upstream <ip...>", "what sandboxes' DNS questions are passed on to (default: the Pod's resolvers)")
    .option("--cluster-range <cidr...>", "IPv4 ranges that sandboxes do not reach (default: none)", collectRange)
    .option("--concurrency <number>", "how many objects of a kind are worked on at once (default: 16)", wholeNumber)
    .option(
      "--step-cache-bytes <number>",
      "what captured steps of recipes may take in each namespace (default: 21474836480, 20 GiB)",
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
`,
    );
}

function gatewayCommand(program: Command, act: Act): void {
  withServerOptions(program.command("gateway"))
    .description("Carry traffic to ports of sandboxes, for who may reach them. Any number may run.")
    .option("--port <port>", "where it takes HTTP and WebSockets; 0: one that is free", portNumber, 8080)
    .option("--address <ip>", "the address of that port", "127.0.0.1")
    .option(
      "--shutdown-delay <seconds>",
      "how long it still takes connections after SIGTERM, for balancers to hear of its end",
      wholeNumber,
      0,
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
`,
    );
}

/** What every server that speaks to the API server has. */
function withServerOptions(command: Command): Command {
  return command
    .option(
      "--metrics-port <port>",
      "serve /metrics, /livez, /healthz and /readyz on this port (default: none)",
      portNumber,
    )
    .option("--metrics-address <ip>", "the address of that port", "127.0.0.1")
    .option("--kubeconfig <file>", "the kubeconfig (default: the Pod's service account, else as elsewhere)")
    .option("--context <name>", "the kubeconfig's context (default: its current one)")
    .addOption(
      new Option("--log-level <level>", "how much to log, in JSON lines on stderr")
        .choices(["debug", "info", "warn", "error"])
        .default("info"),
    );
}
