import { type Command, Option } from "commander";
import { withExamples } from "../options.ts";
import type { Act } from "../report-error.ts";

/** `ramet csi-driver`. */
export function csiDriverCommand(program: Command, act: Act): void {
  const command = program
    .command("csi-driver")
    .description("Run a CSI driver whose volumes are directories of this machine, with snapshots and clones.")
    .requiredOption("--endpoint <address>", "the Unix socket to serve: unix:///PATH")
    .requiredOption("--directory <directory>", "the directory of the volumes and snapshots")
    .requiredOption("--node-id <name>", "the name of this machine's node")
    .option(
      "--kubelet-directory <directory>",
      "register the driver with the kubelet that has this root directory, for instance /var/lib/kubelet",
    )
    .addOption(
      new Option("--log-level <level>", "the lowest level to log, as JSON lines on stderr")
        .choices(["debug", "info", "warn", "error"])
        .default("info"),
    )
    .action(act(async () => (await import("./csi-driver.ts")).runCsiDriverProcess));
  const driver = "--directory /var/lib/ramet/volumes --node-id node-1";
  const kubelet = "/var/lib/kubelet";
  withExamples(
    command,
    `ramet csi-driver --endpoint unix:///run/csi/csi.sock ${driver}`,
    `ramet csi-driver --endpoint unix://${kubelet}/plugins/csi.sock ${driver} --kubelet-directory ${kubelet}`,
  );
}
