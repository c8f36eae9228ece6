import type { Command } from "commander";
import { withExamples } from "../options.ts";
import { settingsFrom, withSettings } from "../server-options.ts";
import type { Act } from "../report-error.ts";

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
  withSettings(program.command("controller"), "controller")
    .description("Run the controllers.")
    .action(
      act(async (flags: Record<string, unknown>) => {
        const { runController } = await import("./controller.ts");
        return (io) => runController(io, settingsFrom("controller", flags));
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
  withSettings(program.command("gateway"), "gateway")
    .description(
      "Proxy HTTP and WebSocket traffic to sandbox ports for authorized clients. Stateless: run any number of replicas.",
    )
    .action(
      act(async (flags: Record<string, unknown>) => {
        const { runGatewayProcess } = await import("./gateway.ts");
        return (io) => runGatewayProcess(io, settingsFrom("gateway", flags));
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
  withSettings(program.command("client-api"), "client-api")
    .description("Serve the HTTP APIs of E2B's SDKs and AgentTier's client. Stateless: run any number of replicas.")
    .action(
      act(async (flags: Record<string, unknown>) => {
        const { runClientApiProcess } = await import("./client-api.ts");
        return (io) => runClientApiProcess(io, settingsFrom("client-api", flags));
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
