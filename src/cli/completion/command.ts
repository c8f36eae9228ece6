import { Option } from "commander";
import type { RametCommand } from "../ramet-command.ts";
import type { Shell } from "./scripts.ts";

/** `ramet completion`, and the hidden command that its scripts call. */
export function completionCommand(program: RametCommand): void {
  const completion = program
    .command("completion")
    .description("Print a script that completes commands, options and names in a shell.");
  for (const [shell, example] of Object.entries(setup)) {
    completion
      .command(shell)
      .description(`Print the script for ${shell}.`)
      .examples(example)
      .setOptionValue("shell", shell)
      .runs(async () => (await import("./scripts.ts")).printScript);
  }
  program
    .command("__complete", { hidden: true })
    .argument("<words...>")
    .addOption(new Option("--kubeconfig <file>").hideHelp())
    .passThroughOptions()
    .allowUnknownOption()
    .runs(async () => {
      const { printCandidates } = await import("./candidates.ts");
      return (io, { words }: { words: string[] }) => printCandidates(io, program, words);
    }, "words");
}

const setup: Readonly<Record<Shell, string>> = {
  bash: "source <(ramet completion bash)      in ~/.bashrc",
  zsh: "source <(ramet completion zsh)       in ~/.zshrc, after compinit",
  fish: "ramet completion fish | source       in ~/.config/fish/config.fish",
};
