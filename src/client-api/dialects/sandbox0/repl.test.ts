import { expect, it } from "vitest";
import type { GuestClient } from "../../../cell/client/guest-client.ts";
import { printedBy } from "./repl.ts";

/** Executes code in a REPL that prints these chunks; in them, `)` stands for the mark of the end. */
async function execute(chunks: readonly string[]): Promise<{ printed: string[]; exitCode?: number }> {
  let nonce = "";
  const guest = {
    sendInput: (_: unknown, line: Buffer) => {
      nonce = line.toString().split(" ")[0] ?? "";
      return Promise.resolve();
    },
    async *connect() {
      await Promise.resolve();
      yield { type: "start", pid: 1 };
      for (const chunk of ["(", ...chunks]) {
        const text = chunk.replaceAll(/[()]/g, (mark) => `\0${nonce}${mark}`);
        yield { type: "data", stream: "stdout", data: Buffer.from(text) };
      }
    },
  } as unknown as GuestClient;
  const printed: string[] = [];
  for await (const part of printedBy(guest, { tag: "a", code: "b", signal: AbortSignal.timeout(5_000) })) {
    if ("exitCode" in part) return { printed, exitCode: part.exitCode };
    printed.push(part.bytes.toString().replaceAll(/\0[0-9a-f]{16}/g, ""));
  }
  return { printed };
}

it.each([
  [["one\n", "two\n)0\n"], "one\ntwo\n", 0],
  [["one)", "25", "5\n"], "one", 255],
  [[")0x", "\n)1\n"], ")0x\n", 1],
  [[")1234\n)0\n"], ")1234\n", 0],
  [[")))7\n"], "))", 7],
])("reads %j, also if code prints marks", async (chunks, printed, exitCode) => {
  const result = await execute(chunks);
  expect(result.printed.join("")).toBe(printed);
  expect(result.exitCode).toBe(exitCode);
});

it("passes on what follows a mark that code has printed", async () => {
  const zeros = "0".repeat(64 * 1024);
  const { printed } = await execute([")", zeros, zeros, zeros, ")0\n"]);
  expect(printed.map(({ length }) => length)).toEqual([zeros.length + 1, zeros.length, zeros.length]);
});
