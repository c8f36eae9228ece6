import { Argument } from "commander";
import {
  type ClusterDirectory,
  clusterDirectory,
  defaultClusterName,
  defaultDomain,
  parseDomain,
} from "../../local/cluster-directory.ts";
import { logParts } from "../../local/log-files.ts";
import { parsed } from "../options.ts";
import type { RametCommand } from "../ramet-command.ts";

export function localCommands(program: RametCommand): void {
  const local = program
    .command("local")
    .description("Run a cluster on this machine.")
    .examples("ramet local up", "ramet local status", "ramet local logs controller -f", "ramet local down");
  upCommands(local);
  statusCommands(local);
  imageCommands(local);
  partCommands(local);
}

function upCommands(local: RametCommand): void {
  withName(local.command("up"))
    .description("Start a cluster on this machine. It runs in the background until `ramet local down`.")
    .option("--tune", "enable huge pages for shared memory, for the whole machine (root only)")
    .option(
      "--default-memory <quantity>",
      "memory limit of sandboxes without one, or none (default: half of the machine)",
    )
    .option("--default-cpu <quantity>", "CPU limit of sandboxes without one, or none (default: 3/4 of the machine)")
    .option("--verify-restores", "hash all content of a checkpoint at each restore, which takes 0.7 s per GiB")
    .option(
      "--domain <name>",
      `the gateway serves TLS for the names below it (default: ${defaultDomain})`,
      (text: string) => parsed(() => parseDomain(text)),
    )
    .option("--allow-private-networks", "let sandboxes connect to private ranges, such as the local network")
    .examples("ramet local up", "ramet local up --name test --default-memory 1Gi")
    .runs(async () => (await import("./up.ts")).localUp);
  withName(local.command("down"))
    .description("Stop the cluster and its sandboxes. The next `up` uses its data again.")
    .option("--purge", "also remove its data: objects, checkpoints and logs")
    .examples("ramet local down", "ramet local down --name test --purge")
    .runs(async () => (await import("./up.ts")).localDown);
  local
    .command("setup")
    .description("Download or build everything that `up` needs, without starting a cluster.")
    .examples("ramet local setup")
    .runs(async () => (await import("./up.ts")).localSetup);
}

function statusCommands(local: RametCommand): void {
  withName(local.command("env"))
    .description(
      "Print the variables with which E2B's SDKs and AgentTier's client use the cluster: an API key, the addresses, the domain and its certificates. The first call creates the key.",
    )
    .formats(["sh", "fish", "json"], "commands of a shell, or JSON")
    .choice(
      "--mode <mode>",
      "how clients reach the cluster; addresses needs no DNS, but has no signed URLs of files (default: domain, if its names resolve)",
      ["domain", "addresses"],
    )
    .examples('eval "$(ramet local env)"', "ramet local env -o fish | source", "ramet local env -o json")
    .runs(async () => (await import("./env.ts")).localEnv);
  local
    .command("ls")
    .alias("list")
    .description("List your clusters on this machine.")
    .formats(["table", "json"], "what to print")
    .examples("ramet local ls")
    .runs(async () => (await import("./status.ts")).listClusters);
  withName(local.command("status"))
    .description("Show the cluster's processes and tools. Exits with 1 if the cluster is not up.")
    .formats(["table", "json"], "what to print")
    .examples("ramet local status", "ramet local status --name test -o json")
    .runs(async () => (await import("./status.ts")).localStatus);
  withName(local.command("logs"))
    .description("Print the end of the log of one of the cluster's processes.")
    .addArgument(new Argument("[part]", "whose log").choices(logParts).default("node"))
    .option("-f, --follow", "print new lines until Ctrl-C")
    .examples("ramet local logs", "ramet local logs controller -f")
    .runs(async () => (await import("./up.ts")).localLogs, "part");
}

function imageCommands(local: RametCommand): void {
  const image = local
    .command("image")
    .description("Manage the images of sandboxes on this machine.")
    .examples("ramet local image add tools ./rootfs", "ramet local image ls");
  image
    .command("add")
    .description("Add or replace an image.")
    .argument("<name>", "its name in templates, such as python or registry.example/tools/python:3.12")
    .argument("<path>", "a root directory, a tar of one (plain, gzip or zstd), or an OCI image layout")
    .examples(
      "ramet local image add tools ./rootfs",
      "ramet local image add registry.example/tools/python:3.12 python.tar.gz",
    )
    .runs(async () => (await import("./image.ts")).addImage, "name", "path");
  image
    .command("tag")
    .description("Give an image a further name, with its entrypoint, command, variables and user.")
    .argument("<name>", "the image")
    .argument("<further>", "its further name in templates")
    .examples("ramet local image tag code-interpreter registry.example/code-interpreter:v1")
    .runs(async () => (await import("./image.ts")).tagImage, "name", "further");
  image
    .command("build")
    .description("Build one of Ramet's images, if it is missing or its recipe has changed.")
    .addArgument(
      new Argument("<name>", "which image").choices([
        "python",
        "code-interpreter",
        "code-interpreter-small",
        "code-interpreter-all",
      ]),
    )
    .examples("ramet local image build code-interpreter")
    .runs(async () => (await import("./image.ts")).buildImage, "name");
  image
    .command("rm")
    .description("Remove images. Existing sandboxes keep running; files are removed once no sandbox uses them.")
    .argument("<name...>", "names of images")
    .examples("ramet local image rm tools")
    .runs(async () => (await import("./image.ts")).removeImages, "names");
  image
    .command("ls")
    .description("List the images.")
    .formats(["table", "json"], "what to print")
    .examples("ramet local image ls")
    .runs(async () => (await import("./image.ts")).listImages);
}

/** Hidden commands that `up` starts. They run until a signal arrives. */
function partCommands(local: RametCommand): void {
  const part = (name: string, load: () => Promise<(of: ClusterDirectory, signal: AbortSignal) => Promise<void>>) =>
    withName(local.command(name, { hidden: true })).runs(async () => {
      const run = await load();
      return async (io, options: { name: string }) => {
        await run(clusterDirectory(options.name, io.environment), io.signal);
      };
    });
  part("node", async () => (await import("../../local/node/node-process.ts")).runNodeProcess);
  part("supervise", async () => (await import("../../local/supervisor/supervise.ts")).superviseCluster);
}

function withName(command: RametCommand): RametCommand {
  return command.option("--name <name>", "the cluster's name; a machine can have several", defaultClusterName);
}
