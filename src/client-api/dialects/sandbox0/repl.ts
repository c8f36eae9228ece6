import { randomBytes } from "node:crypto";
import type { HeldBytes } from "../../../base/byte-budget.ts";
import { RametError } from "../../../base/errors.ts";
import type { GuestClient } from "../../../cell/client/guest-client.ts";
import { holdOutput } from "../../service/run-command.ts";

/**
 * A REPL is a program of the sandbox that reads lines `<nonce> <code in base64>` and prints `\0<nonce>(`, what the code prints, and
 * `\0<nonce>)<exit code>`. Its state is in the sandbox, so each replica of the server can continue it.
 */
const python = `import sys,os,ast,base64,traceback
os.dup2(1,2)
g={"__name__":"__main__"}
for line in os.fdopen(os.dup(0)):
    nonce,code=(line.split()+[""])[:2]
    sys.stdout.write("\\0"+nonce+"(");sys.stdout.flush()
    status=0
    try:
        tree=ast.parse(base64.b64decode(code).decode(),"<input>")
        last=tree.body.pop() if tree.body and isinstance(tree.body[-1],ast.Expr) else None
        exec(compile(tree,"<input>","exec"),g)
        if last: exec(compile(ast.Interactive([last]),"<input>","single"),g)
    except SystemExit: raise
    except BaseException:
        status=1
        traceback.print_exc()
    sys.stderr.flush();sys.stdout.write("\\0"+nonce+")"+str(status)+"\\n");sys.stdout.flush()
`;
const shell = `exec 3<&0 </dev/null 2>&1
while read -r n c <&3; do
printf '\\000%s(' "$n"
eval "$(printf %s "$c" | base64 -d)"
printf '\\000%s)%s\\n' "$n" "$?"
done`;

const commands: Readonly<Record<string, readonly string[]>> = {
  python: ["python3", "-u", "-c", python],
  python3: ["python3", "-u", "-c", python],
  bash: ["bash", "-c", shell],
  sh: ["sh", "-c", shell],
};

/** @throws RametError `InvalidArgument` for another language */
export function replCommand(alias: string): string[] {
  const command = Object.hasOwn(commands, alias) ? commands[alias] : undefined;
  if (command !== undefined) return [...command];
  const all = Object.keys(commands).join(", ");
  throw new RametError("InvalidArgument", `repl.alias is ${JSON.stringify(alias)}, and must be one of ${all}`);
}

interface Executing {
  tag: string;
  code: string;
  mostBytes: number;
  /** Counts the output. */
  held: HeldBytes;
  signal: AbortSignal;
}

/**
 * Executes code in a REPL. Executions of the same REPL run one after the other.
 * @throws RametError `NotFound` if it has ended; `OutOfRange` if the code prints too much; `Conflict` if it ends the REPL
 */
export async function execute(
  guest: GuestClient,
  { tag, code, mostBytes, held, signal }: Executing,
): Promise<{ text: string; exitCode: number }> {
  const nonce = randomBytes(8).toString("hex");
  const [begin, end] = [`\0${nonce}(`, `\0${nonce})`];
  const line = `${nonce} ${Buffer.from(code).toString("base64")}\n`;
  let isSent = false;
  let text = "";
  for await (const event of guest.connect({ tag }, signal)) {
    if (!isSent) await guest.sendInput({ tag }, Buffer.from(line));
    isSent = true;
    if (event.type === "end") break;
    if (event.type !== "data") continue;
    text += event.data.toString("latin1");
    const from = text.indexOf(begin);
    // What earlier code has printed comes first.
    if (from < 0) text = text.slice(-begin.length);
    else if (from > 0) text = text.slice(from);
    if (from >= 0) holdOutput(held, event.data.length);
    const [whole, exitCode] =
      new RegExp(`${end.replace(")", "\\)")}(\\d+)\\n`).exec(text.slice(-64 - event.data.length)) ?? [];
    if (from >= 0 && whole !== undefined) {
      const printed = text.slice(begin.length, text.lastIndexOf(end));
      return { text: Buffer.from(printed, "latin1").toString(), exitCode: Number(exitCode) };
    }
    if (text.length > mostBytes) throw new RametError("OutOfRange", `The code prints more than ${mostBytes} bytes`);
  }
  throw new RametError("Conflict", "The REPL ended during the execution", { hint: "Create another context" });
}
