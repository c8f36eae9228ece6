import { type Command, Option } from "commander";
import { withExamples } from "../options.ts";
import type { Act } from "../report-error.ts";
import type { Shell } from "./scripts.ts";

/** `ramet completion`, and the hidden command that its scripts call. */
export function completionCommand(program: Command, act: Act): void {
  const command = program
    .command("completion")
    .description("Print a script that completes commands, options and names in a shell.");
  for (const [shell, example] of Object.entries(setup) as [Shell, string][]) {
    const own = command.command(shell).description(`Print the script for ${shell}.`);
    withExamples(own, example).action(
      act(async () => {
        const { printScript } = await import("./scripts.ts");
        return (io) => printScript(io, shell);
      }),
    );
  }
  program
    .command("__complete", { hidden: true })
    .argument("<words...>")
    .addOption(new Option("--kubeconfig <file>").hideHelp())
    .passThroughOptions()
    .allowUnknownOption()
    .action(
      act(async () => {
        const { printCandidates } = await import("./candidates.ts");
        return (io, { words }: { words: string[] }) => printCandidates(io, program, words);
      }, "words"),
    );
}

const setup: Readonly<Record<Shell, string>> = {
  bash: "source <(ramet completion bash)      in ~/.bashrc",
  zsh: "source <(ramet completion zsh)       in ~/.zshrc, after compinit",
  fish: "ramet completion fish | source       in ~/.config/fish/config.fish",
};
