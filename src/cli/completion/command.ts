import { Option } from "commander";
import { type Io, writeAll } from "../io.ts";
import type { RametCommand } from "../ramet-command.ts";

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
      .runs(() => Promise.resolve(printScript));
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

/**
 * `ramet completion SHELL`. The scripts ask `ramet __complete` with the words up to the cursor, the last one being completed. If
 * nothing fits, the shell completes paths. After a candidate that ends with `/` or `:`, no space is added.
 */
export async function printScript(io: Io, { shell }: { shell: Shell }): Promise<void> {
  await writeAll(io.stdout, scripts[shell]);
}

/** Bash separates words at `=`, `:` and `@`, too. They are joined, and candidates get only what follows the last of these. */
const bash = `_ramet() {
  local IFS=$'\\n' words=() before="\${COMP_LINE:0:COMP_POINT}" word i
  for ((i = 0; i <= COMP_CWORD; i++)); do
    word="\${COMP_WORDS[i]}"
    if ((i > 0)) && [[ "$before" == [![:blank:]]* ]]; then words[\${#words[@]} - 1]+="$word"; else words+=("$word"); fi
    before="\${before#*"$word"}"
  done
  local separate="\${words[\${#words[@]} - 1]}"
  [[ "$word" == [=:@]* ]] && word=""
  separate="\${separate%"$word"}"
  COMPREPLY=($(ramet __complete -- "\${words[@]:1}" 2>/dev/null))
  COMPREPLY=("\${COMPREPLY[@]#"$separate"}")
  [[ \${#COMPREPLY[@]} -eq 1 && "\${COMPREPLY[0]}" == *[/:] ]] && compopt -o nospace
  return 0
}
complete -o default -o nosort -F _ramet ramet 2>/dev/null || complete -o default -F _ramet ramet
`;

/** The first line is for a file `_ramet` in a directory of `$fpath`. */
const zsh = `#compdef ramet
_ramet() {
  local -a found
  found=(\${(f)"$(ramet __complete -- "\${(@Q)words[2,CURRENT-1]}" "$PREFIX" 2>/dev/null)"})
  if (( ! \${#found} )); then _files; return; fi
  compadd -S '' -- \${(M)found:#*[/:]}
  compadd -- \${found:#*[/:]}
}
if [[ "$funcstack[1]" == _ramet ]]; then
  _ramet
else
  (( $+functions[compdef] )) || { autoload -Uz compinit && compinit -i }
  compdef _ramet ramet
fi
`;

const fish = `function __ramet_complete
    set -l words (commandline -opc)
    set -l found (ramet __complete -- $words[2..-1] (commandline -ct) 2>/dev/null)
    if set -q found[1]
        printf '%s\\n' $found
    else
        __fish_complete_path (commandline -ct)
    end
end
complete -c ramet -k -f -a '(__ramet_complete)'
`;

const scripts = { bash, zsh, fish };
export type Shell = keyof typeof scripts;
