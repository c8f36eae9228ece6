import type { Command } from "commander";
import { withExamples } from "../options.ts";
import { settingsCommand } from "../server-options.ts";
import type { Act } from "../report-error.ts";

/** The servers: `ramet controller`, `ramet gateway`, `ramet client-api` and `ramet cell`. */
export function serverCommands(program: Command, act: Act): void {
  withExamples(
    settingsCommand(program, "controller", act, async () => (await import("./controller.ts")).runController),
    "ramet controller --store-directory /var/lib/ramet --cell-image example/cell:1 --install-crds --leader-elect",
    "ramet controller --store 's3://checkpoints/ramet?region=eu-central-1' --cell-image example/cell:1 --leader-elect",
    "ramet controller --beside=openkruise --leader-elect",
  ).description("Run the controllers.");
  withExamples(
    settingsCommand(program, "gateway", act, async () => (await import("./gateway.ts")).runGatewayProcess),
    "ramet gateway --port 8080",
    "token=$(kubectl create token agent --audience ramet-gateway)",
    'curl -H "Ramet-Access-Token: $token" http://8000-default--dev.localhost:8080/',
    "ramet gateway --client-api http://127.0.0.1:8081",
  ).description(
    "Proxy HTTP and WebSocket traffic to sandbox ports for authorized clients. Stateless: run any number of replicas.",
  );
  withExamples(
    settingsCommand(program, "client-api", act, async () => (await import("./client-api.ts")).runClientApiProcess),
    "ramet client-api --port 8081 --template-alias base=python",
    "export E2B_API_URL=http://127.0.0.1:8081 E2B_API_KEY=$(ramet key create agent --service-account agent)",
    "export AGENTTIER_API_URL=$E2B_API_URL AGENTTIER_API_KEY=$E2B_API_KEY",
  ).description("Serve the HTTP APIs of E2B's SDKs and AgentTier's client. Stateless: run any number of replicas.");
  cellCommand(program, act);
}

function cellCommand(program: Command, act: Act): void {
  const cell = program
    .command("cell")
    .description("Run the cell of a sandbox Pod, configured by environment variables.")
    .action(
      // The module starts when it is loaded, and ends the process.
      act(() =>
        Promise.resolve(async () => {
          await import("../../cell/main.ts");
          return new Promise<number>(() => undefined);
        }),
      ),
    );
  const exec = cell
    .command("exec")
    .description("Run the command of a kubelet's probe or hook in the sandbox of this container's cell.")
    .argument("<command...>", "the command and its arguments, after --")
    .option("--at-start", "wait for the sandbox; do nothing if it was restored from a checkpoint")
    .action(act(async () => (await import("./cell-exec.ts")).execBesideCell, "command"));
  withExamples(exec, "ramet cell exec -- cat /tmp/ready", "ramet cell exec --at-start -- /bin/warm-up");
  const setup = cell
    .command("setup")
    .description("Copy the programs that a cell runs (gVisor, guest, link) into a directory, for the cell image.")
    .argument("<directory>", "the target directory; a cell uses /usr/local/bin")
    .action(act(async () => (await import("./cell-exec.ts")).setUpCell, "directory"));
  withExamples(setup, "ramet cell setup /usr/local/bin");
}
