import { type Command, InvalidArgumentError } from "commander";
import { listCommand, getCommand, removeCommand } from "../object/commands.ts";
import {
  collectVariable,
  portNumber,
  wholeNumber,
  withAccessFlags,
  withClusterFlags,
  withExamples,
  withOutputFlag,
  withVolumesFlag,
  withWaitFlags,
  withTimeoutFlag,
} from "../options.ts";
import type { Act } from "../report-error.ts";
import type { ExecOptions } from "./run-command.ts";
import type { PauseOptions } from "./pause.ts";
import type { Forward } from "./port-forward.ts";

/** `ramet sandbox …`. */
export function sandboxCommands(sandbox: Command, act: Act): void {
  createCommand(sandbox, act);
  listCommand(sandbox, "sandbox", act);
  getCommand(sandbox, "sandbox", act);
  removeCommand(sandbox, "sandbox", act);
  execCommand(sandbox, act);
  shellCommand(sandbox, act);
  portForwardCommand(sandbox, act);
  logsCommand(sandbox, act);
  copyCommand(sandbox, act);
  pauseCommands(sandbox, act);
}

function createCommand(sandbox: Command, act: Act): void {
  const command = sandbox
    .command("create")
    .description("Create a sandbox from a template, an image or a checkpoint, and print its name.")
    .option("--template <name>", "the SandboxTemplate to use")
    .option("--image <image>", "the image to use, instead of a template")
    .option("--from <checkpoint-id>", "the checkpoint to clone")
    .option("--name <name>", "its name: a DNS label (default: generated)")
    .option("--paused", "create the clone paused: it gets no Pod until it is resumed (with --from)")
    .option("-e, --env <name=value>", "an environment variable; repeatable", collectVariable);
  withVolumesFlag(command);
  withWaitFlags(command, "until it is ready, or paused");
  withOutputFlag(command, "only the name");
  withClusterFlags(command).action(act(async () => (await import("./create.ts")).createSandbox));
  withExamples(
    command,
    "ramet sandbox create --template python --name a",
    "ramet sandbox create --image debian:13 -e GREETING=hello",
    'ramet sandbox create --from "$(ramet checkpoint create a)" --name b',
  );
}

function execCommand(sandbox: Command, act: Act): void {
  const command = sandbox
    .command("exec")
    .description("Run a command in a sandbox and exit with its exit code.")
    .usage("[options] <name> -- <command> [args...]")
    .argument("<name>", "the sandbox")
    .argument("<command...>", "the command and its arguments, after --")
    .option("-i, --stdin", "pass stdin to the command")
    .option("-t, --tty", "allocate a terminal for the command")
    .option("-e, --env <name=value>", "an environment variable; repeatable", collectVariable)
    .option("--cwd <directory>", "its working directory")
    .option("-u, --user <name>", "the user name or id (default: the sandbox's user)");
  withAccessFlags(command);
  withClusterFlags(command).action(
    act(async () => (await import("./run-command.ts")).execInSandbox, "name", "command"),
  );
  withExamples(
    command.addHelpText(
      "after",
      `\nThe first SIGINT, SIGTERM or SIGHUP sends SIGTERM to the command, the next one SIGKILL.`,
    ),
    "ramet sandbox exec a -- python3 -c 'print(1)'",
    "ramet sandbox exec -it a -- bash",
    "tar c src | ramet sandbox exec -i a --cwd /data -- tar x",
  );
}

function shellCommand(sandbox: Command, act: Act): void {
  const command = sandbox
    .command("shell")
    .description("Open a shell in a sandbox: bash if its image has it, else sh.")
    .argument("<name>", "the sandbox")
    .option("-e, --env <name=value>", "an environment variable; repeatable", collectVariable)
    .option("--cwd <directory>", "its working directory")
    .option("-u, --user <name>", "the user name or id (default: the sandbox's user)");
  withAccessFlags(command);
  withExamples(command, "ramet sandbox shell a", "ramet sandbox shell a --user root");
  withClusterFlags(command).action(
    act(async () => {
      const { execInSandbox } = await import("./run-command.ts");
      const script = "if command -v bash >/dev/null 2>&1; then exec bash; else exec sh; fi";
      const shell = { command: ["sh", "-c", script] as const, stdin: true };
      return (io, options: Omit<ExecOptions, "command">) =>
        execInSandbox(io, { ...options, ...shell, tty: io.terminal !== undefined });
    }, "name"),
  );
}

function portForwardCommand(sandbox: Command, act: Act): void {
  const command = sandbox
    .command("port-forward")
    .description("Forward ports of this machine to ports of a sandbox: HTTP and WebSocket, with --direct any TCP.")
    .argument("<name>", "the sandbox")
    .argument("<port...>", "PORT or LOCAL:PORT; LOCAL 0 is any free port", collectForward)
    .option("--address <ip>", "the local address to listen on", "127.0.0.1");
  withAccessFlags(command);
  withExamples(command, "ramet sandbox port-forward a 8000", "ramet sandbox port-forward a 0:8000 5432 --direct");
  withClusterFlags(command).action(act(async () => (await import("./port-forward.ts")).forwardPorts, "name", "ports"));
}

function collectForward(text: string, before: Forward[] = []): Forward[] {
  const [first = "", second, ...others] = text.split(":");
  if (others.length > 0) throw new InvalidArgumentError("it must be PORT or LOCAL:PORT");
  const remote = portNumber(second ?? first);
  if (remote === 0) throw new InvalidArgumentError("the port in the sandbox must not be 0");
  return [...before, { local: portNumber(first), remote }];
}

function logsCommand(sandbox: Command, act: Act): void {
  const command = sandbox
    .command("logs")
    .description("Print the output of a sandbox's entrypoint.")
    .argument("<name>", "the sandbox")
    .option("-f, --follow", "follow the output until the sandbox ends")
    .option("--tail <lines>", "print only this many of the last lines", wholeNumber)
    .option("--since <duration>", "print only output that is newer than this, such as 10m")
    .option("--timestamps", "start each line with its time");
  withAccessFlags(command);
  withExamples(command, "ramet sandbox logs a -f", "ramet sandbox logs a --since 10m --timestamps");
  withClusterFlags(command).action(act(async () => (await import("./logs.ts")).printLogs, "name"));
}

function copyCommand(sandbox: Command, act: Act): void {
  const command = sandbox
    .command("cp")
    .description("Copy a file or a directory into or out of a sandbox.")
    .argument("<from>", "a local file or directory, NAME:/path in a sandbox, or - for stdin")
    .argument("<to>", "a local file or directory, NAME:/path in a sandbox, or - for stdout")
    .option("-u, --user <name>", "the user name or id (default: the sandbox's user)");
  withAccessFlags(command);
  withClusterFlags(command).action(act(async () => (await import("./copy.ts")).copyFile, "from", "to"));
  withExamples(
    command,
    "ramet sandbox cp data.csv a:/data/in.csv",
    "ramet sandbox cp a:/data/result.json .",
    "ramet sandbox cp src a:/work/                    into /work/src",
    "ramet sandbox cp a:/data ./data",
  );
}

function pauseCommands(sandbox: Command, act: Act): void {
  for (const [verb, paused, done] of [
    ["pause", true, "Store a sandbox's state and delete its Pod."],
    ["resume", false, "Resume a paused sandbox."],
  ] as const) {
    const command = sandbox.command(verb).description(done).argument("<name>", "the sandbox");
    withWaitFlags(command, paused ? "until it is paused" : "until it is ready");
    withExamples(command, `ramet sandbox ${verb} a`);
    withClusterFlags(command).action(
      act(async () => {
        const { pauseSandbox } = await import("./pause.ts");
        return (io, options: Omit<PauseOptions, "paused">) => pauseSandbox(io, { ...options, paused });
      }, "name"),
    );
  }
}

/** `ramet fork`. */
export function forkCommand(program: Command, act: Act): void {
  const command = program
    .command("fork")
    .description("Clone a running sandbox, including its memory, and print the clones' names.")
    .argument("<name>", "the sandbox to clone; it keeps running")
    .option("--count <n>", "the number of sandboxes", wholeNumber, 1)
    .option("--name-prefix <prefix>", "name the clones <prefix>-1, <prefix>-2 and so on (default: generated names)")
    .option("--keep-checkpoint", "keep the checkpoint that the clones start from");
  withVolumesFlag(command);
  command.option("--paused", "create the clones paused: they get no Pod until they are resumed");
  withTimeoutFlag(command);
  withOutputFlag(command, "the names of the clones that are ready");
  withClusterFlags(command).action(act(async () => (await import("./fork.ts")).forkSandbox, "sandbox"));
  withExamples(
    command.addHelpText(
      "after",
      `\nPrints the ready clones to stdout and the failures of the others to stderr. Exits with 1 if a
clone failed. --timeout applies to the checkpoint, and then to the clones.`,
    ),
    "ramet fork a",
    "ramet fork a --count 5 --name-prefix try",
    "ramet fork a --count 100 --paused",
  );
}

/** `ramet rollback`. */
export function rollbackCommand(program: Command, act: Act): void {
  const command = program
    .command("rollback")
    .description("Restore a sandbox to a checkpoint, in place.")
    .argument("<name>", "the sandbox")
    .argument("<checkpoint>", "the checkpoint's id or name, or a version of a named snapshot");
  withVolumesFlag(command);
  withWaitFlags(command, "until it is ready again");
  withOutputFlag(command, "one sentence");
  withClusterFlags(command).action(act(async () => (await import("./rollback.ts")).rollBackSandbox, "name", "to"));
  withExamples(
    command.addHelpText(
      "after",
      `\nThe sandbox keeps its name and volumes and gets another IP address. Its current memory and files are lost.
If it has PersistentVolumeClaims, --volumes Shared confirms that they keep their current data.
Beside other controllers, a clone with another name replaces the sandbox.`,
    ),
    "id=$(ramet checkpoint create a)",
    'ramet rollback a "$id"',
  );
}
