import type { Sandbox } from "e2b";
import * as z from "zod";
import { stopwatch } from "./figure.ts";
import { summary, type Summary } from "./samples.ts";

/** The cost of a command of the SDK and of its shell alone: each is started by a program in the same sandbox. */
export type CommandCosts = Record<string, Summary>;

/** The SDK runs `/bin/bash -l -c <command>`. The others show where the time of a login shell goes. */
const shells = {
  "bash -l -c true, inside": ["/bin/bash", "-l", "-c", "true"],
  "bash -l without profiles, inside": ["/bin/bash", "--noprofile", "-l", "-c", "true"],
  "/bin/true, inside": ["/bin/true"],
};

/** In turns, so that all have the same load. The program measures itself, because its own start is a command too. */
export async function measureCommands(sandbox: Sandbox, n: number): Promise<CommandCosts> {
  await sandbox.files.write(programPath, program);
  const times: Record<string, number[]> = { 'commands.run("true")': [] };
  // The first one is a warm-up.
  for (let turn = 0; turn <= n; turn++) {
    const elapsed = stopwatch();
    await sandbox.commands.run("true");
    if (turn > 0) times['commands.run("true")']?.push(elapsed());
    for (const [name, command] of Object.entries(shells)) {
      const { stdout } = await sandbox.commands.run(`python3 ${programPath} ${command.join(" ")}`);
      if (turn > 0) (times[name] ??= []).push(z.coerce.number().parse(stdout));
    }
  }
  return Object.fromEntries(Object.entries(times).map(([name, values]) => [name, summary(values)!]));
}

const programPath = "/tmp/command-floor.py";

/** Prints the milliseconds from the start of a command to its end, with pipes for its output as the guest has. The first run is a warm-up. */
const program = `import subprocess, sys, time
for _ in range(2):
    since = time.perf_counter()
    subprocess.run(sys.argv[1:], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=True)
    took = time.perf_counter() - since
print(took * 1000)
`;
