import { Argument, type Command, Option } from "commander";
import { type ClusterDirectory, clusterDirectory, defaultClusterName } from "../../local/cluster-directory.ts";
import { defaultDomain, parseDomain } from "../../local/cluster-domain.ts";
import { logParts } from "../../local/log-files.ts";
import { parsed, withExamples } from "../options.ts";
import type { Act } from "../report-error.ts";

/** `ramet local …`. */
export function localCommands(local: Command, act: Act): void {
  upCommands(local, act);
  lookCommands(local, act);
  const image = local.command("image").description("Manage the images of sandboxes on this machine.");
  imageCommands(withExamples(image, "ramet local image add tools ./rootfs", "ramet local image ls"), act);
  partCommands(local, act);
}

function upCommands(local: Command, act: Act): void {
  withExamples(withName(local.command("up")), "ramet local up", "ramet local up --name test --default-memory 1Gi")
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
    .action(act(async () => (await import("./up.ts")).localUp));
  withExamples(withName(local.command("down")), "ramet local down", "ramet local down --name test --purge")
    .description("Stop the cluster and its sandboxes. The next `up` uses its data again.")
    .option("--purge", "also remove its data: objects, checkpoints and logs")
    .action(act(async () => (await import("./up.ts")).localDown));
  withExamples(local.command("setup"), "ramet local setup")
    .description("Download or build everything that `up` needs, without starting a cluster.")
    .action(act(async () => (await import("./up.ts")).localSetup));
}

function lookCommands(local: Command, act: Act): void {
  const env = withName(local.command("env"))
    .description(
      "Print the variables with which E2B's SDKs and AgentTier's client use the cluster: an API key, the addresses, the domain and its certificates. The first call creates the key.",
    )
    .addOption(
      new Option("-o, --output <format>", "commands of a shell, or JSON").choices(["sh", "fish", "json"]).default("sh"),
    )
    .addOption(
      new Option(
        "--mode <mode>",
        "how clients reach the cluster; addresses needs no DNS, but has no signed URLs of files (default: domain, if its names resolve)",
      ).choices(["domain", "addresses"]),
    );
  withExamples(env, 'eval "$(ramet local env)"', "ramet local env -o fish | source", "ramet local env -o json").action(
    act(async () => (await import("./env.ts")).localEnv),
  );
  const list = local
    .command("ls")
    .alias("list")
    .description("List your clusters on this machine.")
    .addOption(new Option("-o, --output <format>", "what to print").choices(["table", "json"]).default("table"));
  withExamples(list, "ramet local ls").action(act(async () => (await import("./status.ts")).listClusters));
  withExamples(withName(local.command("status")), "ramet local status", "ramet local status --name test -o json")
    .description("Show the cluster's processes and tools. Exits with 1 if the cluster is not up.")
    .addOption(new Option("-o, --output <format>", "what to print").choices(["table", "json"]).default("table"))
    .action(act(async () => (await import("./status.ts")).localStatus));
  const logs = withName(local.command("logs"))
    .description("Print the end of the log of one of the cluster's processes.")
    .addArgument(new Argument("[part]", "whose log").choices(logParts).default("node"))
    .option("-f, --follow", "print new lines until Ctrl-C")
    .action(act(async () => (await import("./up.ts")).localLogs, "part"));
  withExamples(logs, "ramet local logs", "ramet local logs controller -f");
}

function imageCommands(image: Command, act: Act): void {
  const add = image
    .command("add")
    .description("Add or replace an image.")
    .argument("<name>", "its name in templates, such as python or registry.example/tools/python:3.12")
    .argument("<path>", "a root directory, a tar of one (plain, gzip or zstd), or an OCI image layout")
    .action(act(async () => (await import("./image.ts")).addImage, "name", "path"));
  withExamples(
    add,
    "ramet local image add tools ./rootfs",
    "ramet local image add registry.example/tools/python:3.12 python.tar.gz",
  );
  const build = image
    .command("build")
    .description("Build one of Ramet's images, if it is missing or its recipe has changed.")
    .addArgument(
      new Argument("<name>", "which image").choices(["python", "code-interpreter", "code-interpreter-small"]),
    )
    .action(act(async () => (await import("./image.ts")).buildImage, "name"));
  withExamples(build, "ramet local image build code-interpreter");
  const remove = image
    .command("rm")
    .description("Remove images. Existing sandboxes keep running; files are removed once no sandbox uses them.")
    .argument("<name...>", "names of images")
    .action(act(async () => (await import("./image.ts")).removeImages, "names"));
  withExamples(remove, "ramet local image rm tools");
  withExamples(image.command("ls"), "ramet local image ls")
    .description("List the images.")
    .addOption(new Option("-o, --output <format>", "what to print").choices(["table", "json"]).default("table"))
    .action(act(async () => (await import("./image.ts")).listImages));
}

/** Hidden commands that `up` starts. They run until a signal arrives. */
function partCommands(local: Command, act: Act): void {
  const part = (name: string, load: () => Promise<(of: ClusterDirectory, signal: AbortSignal) => Promise<void>>) =>
    withName(local.command(name, { hidden: true })).action(
      act(async () => {
        const run = await load();
        return async (io, options: { name: string }) => {
          await run(clusterDirectory(options.name, io.environment), io.signal);
        };
      }),
    );
  part("node", async () => (await import("../../local/node/node-process.ts")).runNodeProcess);
  part("supervise", async () => (await import("../../local/supervisor/supervise.ts")).superviseCluster);
}

function withName(command: Command): Command {
  return command.option("--name <name>", "the cluster's name; a machine can have several", defaultClusterName);
}
