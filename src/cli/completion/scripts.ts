import { exitCodes } from "../exit-codes.ts";
import { type Io, writeAll } from "../io.ts";
import type { Shell } from "./shells.ts";

/** `ramet completion SHELL`. The scripts ask `ramet __complete` with the words up to the cursor, the last one being completed. */
export async function printScript(io: Io, shell: Shell): Promise<number> {
  await writeAll(io.stdout, scripts[shell]);
  return exitCodes.ok;
}

const scripts: Readonly<Record<Shell, string>> = {
  bash: `_ramet() {
  local IFS=$'\\n'
  COMPREPLY=($(ramet __complete -- "\${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null))
  [[ \${#COMPREPLY[@]} -eq 1 && "\${COMPREPLY[0]}" == */ ]] && compopt -o nospace
  return 0
}
complete -o default -o nosort -F _ramet ramet
`,
  zsh: `_ramet() {
  local -a candidates
  candidates=(\${(f)"$(ramet __complete -- "\${(@)words[2,CURRENT]}" 2>/dev/null)"})
  if (( \${#candidates} )); then compadd -- $candidates; else _files; fi
}
compdef _ramet ramet
`,
  fish: `complete -c ramet -a '(ramet __complete -- (commandline -opc)[2..-1] (commandline -ct) 2>/dev/null)'
`,
};
