import { spawn, type ChildProcessByStdio } from "node:child_process";
import { once } from "node:events";
import type { Readable } from "node:stream";
import { text } from "node:stream/consumers";
import type { Link } from "../../../src/cell/network/link.ts";

/** Starts a Node program in a network namespace. In the sandbox's namespace, it replaces gVisor. */
function startIn(netnsPath: string, program: string, ...args: string[]): ChildProcessByStdio<null, Readable, null> {
  const command = [`--net=${netnsPath}`, process.execPath, "-e", program, ...args];
  return spawn("nsenter", command, { stdio: ["ignore", "pipe", "inherit"] });
}

/** Runs a program in the sandbox's namespace and returns its output. */
async function runInside(link: Link, program: string, ...args: string[]): Promise<string> {
  return (await text(startIn(link.netnsPath, program, ...args).stdout)).trim();
}

/** Starts an echo server in a network namespace. Resolves when it listens. */
export async function echoIn(netnsPath: string, port: number): Promise<Disposable> {
  const child = startIn(
    netnsPath,
    `require("net").createServer((s) => s.on("error", () => {}).pipe(s)).listen(${port}, "0.0.0.0", () => console.log("up"))`,
  );
  await once(child.stdout, "data");
  return { [Symbol.dispose]: () => void child.kill("SIGKILL") };
}

/** Connects from the sandbox to an address, sends a word, and returns the response or the error's code. */
export async function callFromInside(link: Link, host: string, port: number): Promise<string> {
  const program = `
    const s = require("net").connect({ host: process.argv[1], port: Number(process.argv[2]) });
    s.setTimeout(20_000, () => { console.log("ETIMEDOUT"); process.exit(); });
    s.on("error", (e) => { console.log(e.code === "EPIPE" ? "ECONNRESET" : e.code); process.exit(); });
    s.on("close", () => console.log("closed"));
    s.once("data", (d) => { console.log(String(d)); process.exit(); });
    s.write("hello");`;
  return runInside(link, program, host, String(port));
}

/** Asks the sandbox's DNS relay for the IPv4 addresses of a name; returns them or the error's code. */
export async function resolveFromInside(link: Link, name: string): Promise<string> {
  const program = `
    const r = new (require("dns").promises.Resolver)({ timeout: 15_000, tries: 1 });
    r.setServers(["169.254.17.1"]);
    r.resolve4(process.argv[1]).then((a) => console.log(a.join()), (e) => console.log(e.code));`;
  return runInside(link, program, name);
}

/** Connects from the sandbox and keeps the connection open. `end` resolves to how it ended. */
export function callFromInsideUntilClosed(
  link: Link,
  host: string,
  port: number,
): { established: Promise<unknown>; end: Promise<string> } {
  const program = `
    const s = require("net").connect({ host: process.argv[1], port: Number(process.argv[2]) });
    s.on("error", (e) => console.log(e.code));
    s.once("data", () => console.log("established"));
    s.write("hello");`;
  const { stdout } = startIn(link.netnsPath, program, host, String(port));
  const established = once(stdout, "data");
  return { established, end: established.then(async () => (await text(stdout)).trim()) };
}
