import { spawn } from "node:child_process";
import { mkdir, readFile, symlink, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect } from "vitest";
import { builtPrograms } from "../setup/built-package.ts";
import type { World } from "./world.ts";

/** Reads the first block of commands below each heading of a page, with names that its reader also replaces. */
export async function readCommands(
  page: string,
  headings: readonly string[],
  replacements: Readonly<Record<string, string>>,
): Promise<string[]> {
  const text = `\n${await readFile(page, "utf8")}`;
  return headings.map((heading) => {
    const [, section = ""] = text.split(`\n${heading}\n`);
    const [, commands = ""] = /```sh\n([^]*?)\n```/.exec(section) ?? [];
    expect(commands, heading).not.toBe("");
    return Object.entries(replacements).reduce((all, [name, own]) => all.replaceAll(name, own), commands);
  });
}

/**
 * Opens a shell of a user with `kubectl` and `ramet`, which resolves to the output. It stops at the first command that fails, and ends
 * the commands in the background.
 */
export async function openShell(world: World): Promise<(commands: string) => Promise<string>> {
  const bin = join(world.directory, "bin");
  await mkdir(bin);
  await symlink(world.kubectlPath, join(bin, "kubectl"));
  await writeFile(join(bin, "ramet"), `#!/bin/sh\nexec ${builtPrograms.ramet.join(" ")} "$@"\n`, { mode: 0o755 });
  const env = { ...process.env, KUBECONFIG: world.kubeconfig, PATH: `${bin}:${process.env["PATH"] ?? ""}` };
  return async (commands) => {
    const script = `set -e\ntrap 'kill $(jobs -p) 2>/dev/null || true' EXIT\n${commands}\n`;
    const child = spawn("bash", ["-c", script], { cwd: world.directory, env, stdio: ["ignore", "pipe", "pipe"] });
    let printed = "";
    for (const stream of [child.stdout, child.stderr]) {
      stream.setEncoding("utf8").on("data", (text: string) => (printed += text));
    }
    const code = await new Promise((resolve) => child.on("close", resolve));
    if (code !== 0) throw new Error(`exit code ${String(code)}:\n${printed}`);
    return printed;
  };
}
