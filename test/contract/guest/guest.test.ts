import { createHash } from "node:crypto";
import { mkdir, readFile, writeFile } from "node:fs/promises";
import { availableParallelism } from "node:os";
import { Readable } from "node:stream";
import { buffer } from "node:stream/consumers";
import { expect, it } from "vitest";
import { envdVersion } from "../../../src/cell/client/guest-wire.ts";
import type { GuestClient } from "../../../src/cell/client/guest-client.ts";
import type { ProcessEvent } from "../../../src/cell/client/guest-wire.ts";
import { RunningGuest } from "./running-guest.ts";

it("passes a command's input, output and exit code", async () => {
  await using guest = await RunningGuest.start();
  await guest.control.init(guest.identity({ environment: { WHO: "me" } }));
  const client = guest.client();
  const events = client.startProcess({
    command: "/bin/sh",
    args: ["-c", "echo $WHO $MORE; cat; echo oops >&2; exit 7"],
    environment: { MORE: "more" },
    tag: "reader",
    stdin: true,
  });
  const seen = await collect(events, async (event) => {
    if (event.type !== "start") return;
    expect(await client.listProcesses()).toMatchObject([{ pid: event.pid, tag: "reader", command: "/bin/sh" }]);
    await client.sendInput({ tag: "reader" }, Buffer.from("given\n"));
    await client.closeStdin({ pid: event.pid });
  });
  expect(seen).toEqual({ stdout: "me more\ngiven\n", stderr: "oops\n", exitCode: 7, missedBytes: 0 });
});

it("names an unknown user, for commands and files, and distinguishes a wrong token", async () => {
  await using guest = await RunningGuest.start();
  const identity = guest.identity();
  await guest.control.init(identity);
  const stranger = guest.client(identity.accessToken, "stranger");
  const unknown = { code: "InvalidArgument", message: expect.stringContaining('"stranger"') as string };
  await expect(collect(stranger.startProcess({ command: "/bin/true" }))).rejects.toMatchObject(unknown);
  await expect(stranger.list("/")).rejects.toMatchObject(unknown);
  await expect(stranger.readFile("/etc/hostname")).rejects.toMatchObject(unknown);
  const forger = guest.client("forged", "stranger");
  await expect(forger.list("/")).rejects.toMatchObject({ code: "Unauthorized" });
});

it("streams large input over one connection at the speed of the command", async () => {
  await using guest = await RunningGuest.start();
  await guest.control.init(guest.identity());
  const client = guest.client();
  const start = (script: string) =>
    client.startProcess({ command: "/bin/sh", args: ["-c", script], stdin: true, tag: script });
  const parts = Array.from({ length: 64 }, (_, index) => Buffer.alloc(64 * 1024, index));
  const result = await collect(start("sleep 0.2; sha256sum"), async (event) => {
    if (event.type !== "start") return;
    const input = client.openInput({ pid: event.pid });
    for (const part of parts) await input.write(part);
    await input.end();
    await client.closeStdin({ pid: event.pid });
  });
  const digest = createHash("sha256").update(Buffer.concat(parts)).digest("hex");
  expect(result).toMatchObject({ stdout: `${digest}  -\n`, exitCode: 0 });

  // If a command exits before it has read all input, the write fails instead of waiting.
  const refused = Promise.withResolvers<unknown>();
  await collect(start("head -c 10 > /dev/null"), async (event) => {
    if (event.type !== "start") return;
    const input = client.openInput({ pid: event.pid });
    const writing = (async () => {
      for (;;) await input.write(parts[0] ?? Buffer.alloc(1));
    })();
    writing.catch(refused.resolve);
    await Promise.resolve();
  });
  expect(await refused.promise).toMatchObject({ code: expect.stringMatching(/^(Conflict|NotFound)$/) as string });

  // A client can stop writing to a command that does not exist.
  const patient = client.openInput({ tag: "nobody" });
  patient.close();
  await expect(patient.end()).rejects.toMatchObject({ code: "Canceled" });
  await expect(client.openInput({ tag: "nobody" }).end()).rejects.toMatchObject({ code: "NotFound" });
});

it("keeps a command running without its client, with all its output", async () => {
  await using guest = await RunningGuest.start();
  await guest.control.init(guest.identity());
  const client = guest.client();
  const command = { command: "/bin/sh", args: ["-c", "echo before; read x; echo after $x"], tag: "kept", stdin: true };
  for await (const event of client.startProcess(command)) if (event.type === "data") break;
  await client.sendInput({ tag: "kept" }, Buffer.from("leaving\n"));
  expect(await collect(client.connect({ tag: "kept" }))).toMatchObject({
    stdout: "before\nafter leaving\n",
    exitCode: 0,
  });
});

it("closes old connections in a clone, and keeps the command running", async () => {
  await using guest = await RunningGuest.start();
  await guest.control.init(guest.identity());
  const events = guest.client().startProcess({ command: "/bin/sh", args: ["-c", "echo one; sleep 60"], tag: "on" });
  const cut = collect(events, async (event) => {
    if (event.type === "data")
      await guest.control.init(guest.identity({ sandboxId: "two", generation: 2, clone: true, accessToken: "new" }));
  });
  await expect(cut).rejects.toMatchObject({ code: "GuestUnreachable", retryable: true });
  await expect(guest.client().listProcesses()).rejects.toMatchObject({ code: "Unauthorized" });
  const client = guest.client("new");
  expect(await client.listProcesses()).toMatchObject([{ tag: "on" }]);
  await client.signal({ tag: "on" }, "SIGKILL");
  expect(await collect(client.connect({ tag: "on" }))).toMatchObject({ stdout: "one\n", exitCode: 137 });
});

it("resizes a terminal", async () => {
  await using guest = await RunningGuest.start();
  await guest.control.init(guest.identity());
  const client = guest.client();
  const events = client.startProcess({
    command: "/bin/sh",
    args: ["-c", "stty size; read x; stty size"],
    tag: "terminal",
    pty: { columns: 100, rows: 30 },
  });
  let typed = false;
  const { stdout } = await collect(events, async (event) => {
    if (event.type !== "data" || typed) return;
    typed = true;
    await client.resize({ tag: "terminal" }, { columns: 120, rows: 40 });
    await client.sendInput({ tag: "terminal" }, Buffer.from("go\n"), "pty");
  });
  expect(stdout).toMatch(/30 100[^]*40 120/);
});

it("reads, writes, lists and removes files", async () => {
  await using guest = await RunningGuest.start();
  await guest.control.init(guest.identity());
  const client = guest.client();
  const path = `${guest.directory}/new/file`;
  const content = Buffer.alloc(5 << 20, "abc");
  await client.writeFile(path, Readable.from([content]));
  expect((await buffer(await client.readFile(path))).equals(content)).toBe(true);
  expect(await client.stat(path)).toMatchObject({ type: "file", size: content.length, name: "file" });
  expect(await client.list(guest.directory, 2)).toContainEqual(expect.objectContaining({ path, type: "file" }));
  await client.remove(path);
  await expect(client.stat(path)).rejects.toMatchObject({ code: "NotFound" });
  await expect(client.readFile(path)).rejects.toMatchObject({ code: "NotFound" });
  await expect(client.writeFile("/dev", Buffer.from("x"))).rejects.toMatchObject({ code: "InvalidArgument" });
});

it("reports failures with operation and reason", async () => {
  await using guest = await RunningGuest.start();
  await guest.control.init(guest.identity());
  const client = guest.client();
  await expect(collect(client.startProcess({ command: "/no/such" }))).rejects.toMatchObject({
    code: "InvalidArgument",
    message: expect.stringContaining("no such file") as string,
  });
  const slow = { command: "/bin/sleep", args: ["60"], timeoutMilliseconds: 200 };
  await expect(collect(client.startProcess(slow))).rejects.toMatchObject({ code: "Timeout" });
  const giveUp = new AbortController();
  const given = collect(client.startProcess({ command: "/bin/sleep", args: ["60"] }, giveUp.signal), () => {
    giveUp.abort();
  });
  await expect(given).rejects.toMatchObject({ code: "Canceled" });
  await expect(client.signal({ pid: 999_999 }, "SIGTERM")).rejects.toMatchObject({ code: "NotFound" });
});

it("applies an identity, runs hooks and reports the entrypoint's exit", async () => {
  await using guest = await RunningGuest.start("/bin/sh", "-c", "sleep 0.3; exit 9");
  await mkdir(`${guest.directory}/hooks`);
  await writeFile(`${guest.directory}/hooks/10-greet`, "#!/bin/sh\necho $RAMET_SANDBOX_ID; exit 3\n", { mode: 0o755 });
  const untilExit = guest.control.untilExit(new Promise(() => undefined));
  // It starts after 200 ms also without an identity, which a busy machine takes to get here.
  const state = expect.stringMatching(/^(waiting|running)$/) as string;
  expect(await guest.control.health()).toMatchObject({ generation: 0, entrypoint: { state } });
  const request = guest.identity({ sandboxId: "two", generation: 2, clone: true });
  const result = await guest.control.init(request);
  expect(result.hooks).toMatchObject([{ exitCode: 3, output: "two\n", timedOut: false }]);
  expect(await guest.control.init(request)).toEqual(result);
  await expect(guest.control.init({ ...request, generation: 1 })).rejects.toMatchObject({ code: "Conflict" });
  expect(await readFile(`${guest.directory}/state/generation`, "utf8")).toBe("2\n");
  await guest.control.quiesce();
  expect(await untilExit).toEqual({ exitCode: 9 });
  expect(await guest.control.health()).toMatchObject({ entrypoint: { state: "exited", exitCode: 9 } });
  const last = await guest.control.untilExit(Promise.resolve());
  expect(last?.exitCode).toSatisfy((code) => code === 9 || code === undefined);
});

it("reports why the entrypoint cannot start", async () => {
  await using guest = await RunningGuest.start("/no/such/program");
  const message = "starting the entrypoint failed: stat /no/such/program: no such file or directory";
  const untilExit = guest.control.untilExit(new Promise(() => undefined));
  expect(await untilExit).toEqual({ exitCode: 127, message });
});

it("marks output that a background process keeps open", async () => {
  await using guest = await RunningGuest.start();
  await guest.control.init(guest.identity());
  const run = async (script: string) => {
    const ends: ProcessEvent[] = [];
    const events = guest.client().startProcess({ command: "/bin/sh", args: ["-c", script] });
    const { stdout } = await collect(events, (event) => {
      if (event.type === "end") ends.push(event);
    });
    return { stdout, ends };
  };
  expect(await run("(sleep 0.5; echo late) & echo early")).toMatchObject({
    stdout: "early\nlate\n",
    ends: [{ exitCode: 0, outputOpen: false }],
  });
  expect(await run("sleep 60 & echo early")).toMatchObject({
    stdout: "early\n",
    ends: [{ exitCode: 0, outputOpen: true }],
  });
});

it("announces the version of envd that servers announce for it", async () => {
  await using guest = await RunningGuest.start();
  const { accessToken } = guest.identity();
  await guest.control.init(guest.identity());
  const response = await guest.fetch("/init", { method: "POST", body: JSON.stringify({ accessToken }) });
  expect(response.status).toBe(204);
  expect(response.headers.get("x-envd-version")).toBe(envdVersion);
});

it("shows the limits that came with its last identity", async () => {
  await using guest = await RunningGuest.start();
  await guest.control.init(guest.identity({ limits: { memoryBytes: 64 << 20, cpuMillis: 1500 } }));
  const metrics = async () => (await guest.fetch("/metrics")).json();
  expect(await metrics()).toMatchObject({ mem_total: 64 << 20, cpu_count: 2 });
  await guest.control.init(guest.identity({ generation: 2, limits: { memoryBytes: 32 << 20 } }));
  expect(await metrics()).toMatchObject({ mem_total: 32 << 20, cpu_count: availableParallelism() });
});

it("composes a file of parts, and keeps the metadata of an upload", async () => {
  await using guest = await RunningGuest.start();
  await guest.control.init(guest.identity());
  const client = guest.client();
  const at = (name: string): string => `${guest.directory}/${name}`;
  await Promise.all(["one", "two"].map((name) => client.writeFile(at(name), Buffer.from(name))));
  const body = JSON.stringify({ source_paths: [at("one"), at("two")], destination: at("new/whole") });
  expect((await guest.fetch("/files/compose", { method: "POST", body })).status).toBe(200);
  expect((await buffer(await client.readFile(at("new/whole")))).toString()).toBe("onetwo");
  await expect(client.stat(at("one"))).rejects.toMatchObject({ code: "NotFound" });

  const query = new URLSearchParams({ path: at("described") }).toString();
  const headers = { "x-metadata-author": "ada", "content-type": "application/octet-stream" };
  const upload = await guest.fetch(`/files?${query}`, { method: "POST", body: "x", headers });
  const file = { path: at("described"), metadata: { author: "ada" } };
  expect(await upload.json()).toMatchObject([file]);
  const stat = await guest.fetch("/filesystem.Filesystem/Stat", {
    method: "POST",
    body: JSON.stringify({ path: at("described") }),
    headers: { "content-type": "application/json" },
  });
  expect(await stat.json()).toMatchObject({ entry: file });
});

async function collect(
  events: ReturnType<GuestClient["connect"]>,
  each: (event: ProcessEvent) => Promise<void> | void = () => undefined,
): Promise<{ stdout: string; stderr: string; exitCode: number; missedBytes: number }> {
  const seen = { stdout: "", stderr: "", exitCode: -1, missedBytes: -1 };
  for await (const event of events) {
    if (event.type === "data") seen[event.stream === "stderr" ? "stderr" : "stdout"] += event.data.toString();
    if (event.type === "end") Object.assign(seen, { exitCode: event.exitCode, missedBytes: event.missedBytes });
    await each(event);
  }
  return seen;
}
