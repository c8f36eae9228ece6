import type { RametCommand } from "../ramet-command.ts";
import { settingsCommand } from "../server-options.ts";

/** The servers: `ramet controller`, `ramet gateway`, `ramet client-api` and `ramet cell`. */
export function serverCommands(program: RametCommand): void {
  settingsCommand(program, "controller", async () => (await import("./controller.ts")).runController)
    .description("Run the controllers.")
    .examples(
      "ramet controller --store-directory /var/lib/ramet --cell-image example/cell:1 --install-crds --leader-elect",
      "ramet controller --store 's3://checkpoints/ramet?region=eu-central-1' --cell-image example/cell:1 --leader-elect",
      "ramet controller --beside=openkruise --leader-elect",
    );
  settingsCommand(program, "gateway", async () => (await import("./gateway.ts")).runGatewayProcess)
    .description(
      "Proxy HTTP and WebSocket traffic to sandbox ports for authorized clients. Stateless: run any number of replicas.",
    )
    .examples(
      "ramet gateway --port 8080",
      "token=$(kubectl create token agent --audience ramet-gateway)",
      'curl -H "Ramet-Access-Token: $token" http://8000-default--dev.localhost:8080/',
      "ramet gateway --client-api http://127.0.0.1:8081",
    );
  settingsCommand(program, "client-api", async () => (await import("./client-api.ts")).runClientApiProcess)
    .description("Serve the HTTP APIs of E2B's SDKs and AgentTier's client. Stateless: run any number of replicas.")
    .examples(
      "ramet client-api --port 8081 --template-alias base=python",
      "export E2B_API_URL=http://127.0.0.1:8081 E2B_API_KEY=$(ramet key create agent --service-account agent)",
      "export AGENTTIER_API_URL=$E2B_API_URL AGENTTIER_API_KEY=$E2B_API_KEY",
    );
  const cell = program
    .command("cell")
    .description("Run the cell of a sandbox Pod, configured by environment variables.")
    // The module starts when it is loaded, and ends the process.
    .runs(() =>
      Promise.resolve(async () => {
        await import("../../cell/main.ts");
        return new Promise<number>(() => undefined);
      }),
    );
  cell
    .command("exec")
    .description("Run the command of a kubelet's probe or hook in the sandbox of this container's cell.")
    .argument("<command...>", "the command and its arguments, after --")
    .option("--at-start", "wait for the sandbox; do nothing if it was restored from a checkpoint")
    .examples("ramet cell exec -- cat /tmp/ready", "ramet cell exec --at-start -- /bin/warm-up")
    .runs(async () => (await import("./cell-exec.ts")).execBesideCell, "command");
  cell
    .command("setup")
    .description(
      "Copy the programs that a cell runs (gVisor, guest, link, gofer) into a directory, for the cell image.",
    )
    .argument("<directory>", "the target directory; a cell uses /usr/local/bin")
    .examples("ramet cell setup /usr/local/bin")
    .runs(async () => (await import("./cell-exec.ts")).setUpCell, "directory");
}

export function csiDriverCommand(program: RametCommand): void {
  const driver = "--directory /var/lib/ramet/volumes --node-id node-1";
  const kubelet = "/var/lib/kubelet";
  program
    .command("csi-driver")
    .description("Run a CSI driver whose volumes are directories of this machine, with snapshots and clones.")
    .requiredOption("--endpoint <address>", "the Unix socket to serve: unix:///PATH")
    .requiredOption("--directory <directory>", "the directory of the volumes and snapshots")
    .requiredOption("--node-id <name>", "the name of this machine's node")
    .option(
      "--kubelet-directory <directory>",
      "register the driver with the kubelet that has this root directory, for instance /var/lib/kubelet",
    )
    .choice(
      "--log-level <level>",
      "the lowest level to log, as JSON lines on stderr",
      ["debug", "info", "warn", "error"],
      "info",
    )
    .examples(
      `ramet csi-driver --endpoint unix:///run/csi/csi.sock ${driver}`,
      `ramet csi-driver --endpoint unix://${kubelet}/plugins/csi.sock ${driver} --kubelet-directory ${kubelet}`,
    )
    .runs(async () => (await import("./csi-driver.ts")).runCsiDriverProcess);
}

export function manifestsCommand(program: RametCommand): void {
  settingsCommand(program, "manifests", async () => (await import("../manifests/manifests.ts")).printManifests)
    .description("Print the manifests that install the controllers and gateways, for kubectl apply and GitOps.")
    .examples(
      "ramet manifests --image example/ramet:1 --cell-image example/cell:1 --store s3://checkpoints | kubectl apply -f -",
      "ramet manifests --image example/ramet:1 --cell-image example/cell:1 --out ramet && kubectl apply -k ramet",
      "ramet manifests --image example/ramet:1 --beside=openkruise | kubectl apply -f -",
    );
}
