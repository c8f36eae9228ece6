import type { RametCommand } from "../ramet-command.ts";

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
