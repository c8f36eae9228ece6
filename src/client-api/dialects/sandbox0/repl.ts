import { randomBytes } from "node:crypto";
import type { HeldBytes } from "../../../base/byte-budget.ts";
import { RametError } from "../../../base/errors.ts";
import { CollectedBytes } from "../../../base/http.ts";
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

interface Code {
  tag: string;
  code: string;
  signal: AbortSignal;
}

/** Sends code to a REPL, and does not wait until it is executed. @returns the marks of its execution */
export async function sendCode(guest: GuestClient, { tag, code }: Omit<Code, "signal">): Promise<[string, string]> {
  const nonce = randomBytes(8).toString("hex");
  await guest.sendInput({ tag }, Buffer.from(`${nonce} ${Buffer.from(code).toString("base64")}\n`));
  return [`\0${nonce}(`, `\0${nonce})`];
}

/**
 * Executes code in a REPL, and returns what it prints meanwhile, and last its exit code. Executions of the same REPL run one after the
 * other. @throws RametError `NotFound` if it has ended; `Conflict` if the code ends the REPL
 */
export async function* printedBy(
  guest: GuestClient,
  { tag, code, signal }: Code,
): AsyncGenerator<{ bytes: Buffer } | { exitCode: number }> {
  let marks: [string, string] | undefined;
  let text = "";
  let isBegun = false;
  for await (const event of guest.connect({ tag }, signal)) {
    marks ??= await sendCode(guest, { tag, code });
    if (event.type === "end") break;
    if (event.type !== "data") continue;
    const [begin, end] = marks;
    text += event.data.toString("latin1");
    if (!isBegun) {
      const from = text.indexOf(begin);
      isBegun = from >= 0;
      // What earlier code has printed comes first.
      text = isBegun ? text.slice(from + begin.length) : text.slice(-begin.length);
    }
    if (!isBegun) continue;
    const { printed, rest, exitCode } = splitAt(end, text);
    text = rest;
    if (printed !== "") yield { bytes: Buffer.from(printed, "latin1") };
    if (exitCode === undefined) continue;
    yield { exitCode };
    return;
  }
  throw new RametError("Conflict", "The REPL ended during the execution", { hint: "Create another context" });
}

/** The longest exit code, with the line's end. */
const codeLength = 4;

/**
 * Separates what code has printed from the mark at its end, which may have begun: `rest` is not longer than that. Code can read the mark,
 * and print it with anything after it.
 */
function splitAt(end: string, text: string): { printed: string; rest: string; exitCode?: number } {
  let from = 0;
  for (let at = text.indexOf(end); at >= 0; at = text.indexOf(end, from)) {
    from = at + end.length;
    const after = text.slice(from, from + codeLength);
    const [, exitCode] = /^(\d{1,3})\n/.exec(after) ?? [];
    if (exitCode !== undefined) return { printed: text.slice(0, at), rest: "", exitCode: Number(exitCode) };
    if (from + after.length === text.length && /^\d{0,3}$/.test(after))
      return { printed: text.slice(0, at), rest: text.slice(at) };
  }
  const begun = text.indexOf("\0", Math.max(from, text.length - end.length));
  const printed = begun < 0 ? text : text.slice(0, begun);
  return { printed, rest: text.slice(printed.length) };
}

interface Executing extends Code {
  mostBytes: number;
  /** Counts the output. */
  held: HeldBytes;
}

/**
 * Executes code in a REPL.
 * @throws RametError `NotFound` if it has ended; `OutOfRange` if the code prints too much; `Conflict` if it ends the REPL
 */
export async function execute(
  guest: GuestClient,
  { mostBytes, held, ...code }: Executing,
): Promise<{ text: string; exitCode: number }> {
  const output = new CollectedBytes();
  for await (const part of printedBy(guest, code)) {
    if ("exitCode" in part) return { text: Buffer.concat(output.blocks()).toString(), exitCode: part.exitCode };
    holdOutput(held, part.bytes.length);
    output.add(part.bytes);
    if (output.size > mostBytes) throw new RametError("OutOfRange", `The code prints more than ${mostBytes} bytes`);
  }
  throw new RametError("Internal", "The execution ended without an exit code");
}
