import { Option, type Command } from "commander";
import { storeAddresses, wholeNumber } from "../options.ts";
import type { Act } from "../act.ts";
import type { ControllerOptions } from "./controller.ts";

/** What runs in the cluster: `ramet controller` and `ramet cell`. */
export function serverCommands(program: Command, act: Act): void {
  controllerCommand(program, act);
  program
    .command("cell")
    .description("Run the cell of a sandbox Pod. Its setting comes from the environment.")
    .action(
      act(async () => {
        const { runCell } = await import("./cell.ts");
        return runCell;
      }),
    );
}

function controllerCommand(program: Command, act: Act): void {
  program
    .command("controller")
    .description("Run the controllers.")
    .option("--store-directory <folder>", "a folder where checkpoints are kept; every node that runs cells has it too")
    .option("--store <address>", `or where in a bucket: ${storeAddresses}`)
    .requiredOption("--cell-image <image>", "the image with the cell, gVisor, guest and link")
    .option("--install-crds", "bring the CRDs to this version first")
    .option("--leader-elect", "run several; one of them works")
    .option("--metrics-port <port>", "serve /metrics, /healthz and /readyz there (default: nothing)", wholeNumber)
    .option("--metrics-address <ip>", "the address of that port", "127.0.0.1")
    .option("--dns-upstream <ip...>", "what sandboxes' DNS questions are passed on to (default: the Pod's resolvers)")
    .option("--concurrency <number>", "how many objects of a kind are worked on at once (default: 16)", wholeNumber)
    .option(
      "--step-cache-bytes <number>",
      "what captured steps of recipes may take in each namespace (default: 21474836480, 20 GiB)",
      wholeNumber,
    )
    .option("--kubeconfig <file>", "the kubeconfig (default: the Pod's service account, else as elsewhere)")
    .option("--context <name>", "the kubeconfig's context (default: its current one)")
    .addOption(
      new Option("--log-level <level>", "how much to log, in JSON lines on stderr")
        .choices(["debug", "info", "warn", "error"])
        .default("info"),
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
