import { InvalidArgumentError } from "commander";
import { getCommand, listCommand, removeCommand } from "../object/commands.ts";
import { collectVariable, portNumber, positiveNumber, wholeNumber } from "../options.ts";
import type { RametCommand } from "../ramet-command.ts";
import type { ExecOptions } from "./run-command.ts";
import type { Forward } from "./port-forward.ts";

export function sandboxCommands(program: RametCommand): void {
  const sandbox = program
    .command("sandbox")
    .alias("sbx")
    .description("Create, enter and delete sandboxes.")
    .examples(
      "ramet sandbox create --template python --name a",
      "ramet sandbox exec a -- python3 -c 'print(1)'",
      "ramet sandbox rm a",
    );
  sandbox
    .command("create")
    .description("Create a sandbox from a template, an image or a checkpoint, and print its name.")
    .option("--template <name>", "the SandboxTemplate to use")
    .option("--image <image>", "the image to use, instead of a template")
    .option("--from <checkpoint-id>", "the checkpoint to clone")
    .option("--name <name>", "its name: a DNS label (default: generated)")
    .option("--paused", "create the clone paused: it gets no Pod until it is resumed (with --from)")
    .option("-e, --env <name=value>", "an environment variable; repeatable", collectVariable)
    .volumesFlag()
    .waitFlags("until it is ready, or paused")
    .outputFlag("only the name")
    .clusterFlags()
    .examples(
      "ramet sandbox create --template python --name a",
      "ramet sandbox create --image debian:13 -e GREETING=hello",
      'ramet sandbox create --from "$(ramet checkpoint create a)" --name b',
    )
    .runs(async () => (await import("./lifecycle.ts")).createSandbox);
  listCommand(sandbox, "sandbox");
  getCommand(sandbox, "sandbox");
  removeCommand(sandbox, "sandbox");
  enterCommands(sandbox);
  pauseCommands(sandbox);
}

function enterCommands(sandbox: RametCommand): void {
  sandbox
    .command("exec")
    .description("Run a command in a sandbox and exit with its exit code.")
    .usage("[options] <name> -- <command> [args...]")
    .argument("<name>", "the sandbox")
    .argument("<command...>", "the command and its arguments, after --")
    .option("-i, --stdin", "pass stdin to the command")
    .option("-t, --tty", "allocate a terminal for the command")
    .option("-e, --env <name=value>", "an environment variable; repeatable", collectVariable)
    .option("--cwd <directory>", "its working directory")
    .option("-u, --user <name>", "the user name or id (default: the sandbox's user)")
    .accessFlags()
    .clusterFlags()
    .addHelpText("after", `\nThe first SIGINT, SIGTERM or SIGHUP sends SIGTERM to the command, the next one SIGKILL.`)
    .examples(
      "ramet sandbox exec a -- python3 -c 'print(1)'",
      "ramet sandbox exec -it a -- bash",
      "tar c src | ramet sandbox exec -i a --cwd /data -- tar x",
    )
    .runs(async () => (await import("./run-command.ts")).execInSandbox, "name", "command");
  sandbox
    .command("shell")
    .description("Open a shell in a sandbox: bash if its image has it, else sh.")
    .argument("<name>", "the sandbox")
    .option("-e, --env <name=value>", "an environment variable; repeatable", collectVariable)
    .option("--cwd <directory>", "its working directory")
    .option("-u, --user <name>", "the user name or id (default: the sandbox's user)")
    .accessFlags()
    .clusterFlags()
    .examples("ramet sandbox shell a", "ramet sandbox shell a --user root")
    .runs(async () => {
      const { execInSandbox } = await import("./run-command.ts");
      const script = "if command -v bash >/dev/null 2>&1; then exec bash; else exec sh; fi";
      const shell = { command: ["sh", "-c", script] as const, stdin: true };
      return (io, options: Omit<ExecOptions, "command">) =>
        execInSandbox(io, { ...options, ...shell, tty: io.terminal !== undefined });
    }, "name");
  sandbox
    .command("port-forward")
    .description("Forward ports of this machine to ports of a sandbox: HTTP and WebSocket, with --direct any TCP.")
    .argument("<name>", "the sandbox")
    .argument("<port...>", "PORT or LOCAL:PORT; LOCAL 0 is any free port", collectForward)
    .option("--address <ip>", "the local address to listen on", "127.0.0.1")
    .accessFlags()
    .clusterFlags()
    .examples("ramet sandbox port-forward a 8000", "ramet sandbox port-forward a 0:8000 5432 --direct")
    .runs(async () => (await import("./port-forward.ts")).forwardPorts, "name", "ports");
  sandbox
    .command("logs")
    .description("Print the output of a sandbox's entrypoint.")
    .argument("<name>", "the sandbox")
    .option("-f, --follow", "follow the output until the sandbox ends")
    .option("--tail <lines>", "print only this many of the last lines", wholeNumber)
    .option("--since <duration>", "print only output that is newer than this, such as 10m")
    .option("--timestamps", "start each line with its time")
    .accessFlags()
    .clusterFlags()
    .examples("ramet sandbox logs a -f", "ramet sandbox logs a --since 10m --timestamps")
    .runs(async () => (await import("./logs.ts")).printLogs, "name");
  sandbox
    .command("cp")
    .description("Copy a file or a directory into or out of a sandbox.")
    .argument("<from>", "a local file or directory, NAME:/path in a sandbox, or - for stdin")
    .argument("<to>", "a local file or directory, NAME:/path in a sandbox, or - for stdout")
    .option("-u, --user <name>", "the user name or id (default: the sandbox's user)")
    .accessFlags()
    .clusterFlags()
    .examples(
      "ramet sandbox cp data.csv a:/data/in.csv",
      "ramet sandbox cp a:/data/result.json .",
      "ramet sandbox cp src a:/work/                    into /work/src",
      "ramet sandbox cp a:/data ./data",
    )
    .runs(async () => (await import("./copy.ts")).copyFile, "from", "to");
}

function collectForward(text: string, before: Forward[] = []): Forward[] {
  const [first = "", second, ...others] = text.split(":");
  if (others.length > 0) throw new InvalidArgumentError("it must be PORT or LOCAL:PORT");
  const remote = portNumber(second ?? first);
  if (remote === 0) throw new InvalidArgumentError("the port in the sandbox must not be 0");
  return [...before, { local: portNumber(first), remote }];
}

function pauseCommands(sandbox: RametCommand): void {
  for (const [verb, paused, done] of [
    ["pause", true, "Store a sandbox's state and delete its Pod."],
    ["resume", false, "Resume a paused sandbox."],
  ] as const) {
    sandbox
      .command(verb)
      .description(done)
      .argument("<name>", "the sandbox")
      .waitFlags(paused ? "until it is paused" : "until it is ready")
      .clusterFlags()
      .examples(`ramet sandbox ${verb} a`)
      .setOptionValue("paused", paused)
      .usesCluster(async () => (await import("./lifecycle.ts")).pauseSandbox, "name");
  }
}

export function forkCommand(program: RametCommand): void {
  program
    .command("fork")
    .description("Clone a running sandbox, including its memory, and print the clones' names.")
    .argument("<name>", "the sandbox to clone; it keeps running")
    .option("--count <n>", "the number of sandboxes", positiveNumber, 1)
    .option("--name-prefix <prefix>", "name the clones <prefix>-1, <prefix>-2 and so on (default: generated names)")
    .option("--keep-checkpoint", "keep the checkpoint that the clones start from")
    .volumesFlag()
    .option("--paused", "create the clones paused: they get no Pod until they are resumed")
    .timeoutFlag()
    .outputFlag("the names of the clones that are ready")
    .clusterFlags()
    .addHelpText(
      "after",
      `\nPrints the ready clones to stdout and the failures of the others to stderr. Exits with 1 if a
clone failed. --timeout applies to the checkpoint, and then to the clones.`,
    )
    .examples("ramet fork a", "ramet fork a --count 5 --name-prefix try", "ramet fork a --count 100 --paused")
    .runs(async () => (await import("./fork.ts")).forkSandbox, "sandbox");
}

export function rollbackCommand(program: RametCommand): void {
  program
    .command("rollback")
    .description("Restore a sandbox to a checkpoint, in place.")
    .argument("<name>", "the sandbox")
    .argument("<checkpoint>", "the checkpoint's id or name, or a version of a named snapshot")
    .volumesFlag()
    .waitFlags("until it is ready again")
    .outputFlag("one sentence")
    .clusterFlags()
    .addHelpText(
      "after",
      `\nThe sandbox keeps its name and volumes and gets another IP address. Its current memory and files are lost.
If it has PersistentVolumeClaims, --volumes Shared confirms that they keep their current data.
Beside other controllers, a clone with another name replaces the sandbox.`,
    )
    .examples("id=$(ramet checkpoint create a)", 'ramet rollback a "$id"')
    .usesCluster(async () => (await import("./lifecycle.ts")).rollBackSandbox, "name", "to");
}
