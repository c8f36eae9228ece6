import { once } from "node:events";
import { mkdtemp, readdir, readlink, rm } from "node:fs/promises";
import { connect, createServer, type AddressInfo } from "node:net";
import { networkInterfaces, tmpdir } from "node:os";
import { join } from "node:path";
import type { Duplex } from "node:stream";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import type { EgressPolicy } from "../../../src/api/wire/cell-api.ts";
import { type Link, type LinkConfig, spawnLink, startLink } from "../../../src/cell/network/link.ts";
import { acquireTools } from "../../../src/local/tools/acquire-tools.ts";
import { addressBlock } from "../../setup/address-block.ts";
import { startDnsStandIn } from "./dns-stand-in.ts";
import { callFromInside, callFromInsideUntilClosed, echoIn, resolveFromInside } from "./inside.ts";
import { podAddress, worldScript } from "./world.ts";

const allowAll: EgressPolicy = { default: "allow", allow: [], deny: [] };
const sandboxPort = 18_080;
const worldPort = 18_081;

// Entering a network namespace requires root. native/link tests the same as an ordinary user.
describe.skipIf(process.getuid?.() !== 0)("link", () => {
  let directory: string;
  let binary: string;
  const stops: (() => unknown)[] = [];

  beforeEach(async () => {
    directory = await mkdtemp(join(tmpdir(), "link-"));
    binary = process.env["RAMET_LINK"] ?? (await acquireTools({ names: ["ramet-link"] }))["ramet-link"];
  });
  afterEach(async () => {
    for (const stop of stops.splice(0).reverse()) await stop();
    await rm(directory, { recursive: true });
  });

  async function start(config: Partial<LinkConfig> = {}): Promise<Link> {
    const full = {
      socket: join(directory, "s"),
      ports: [],
      listen: "",
      egress: allowAll,
      dns: { upstreams: [] },
      ...config,
    };
    const link = await startLink(spawnLink({ binary }), { config: full });
    stops.push(() => link.stop());
    return link;
  }

  /** Starts link in a separate network, with an echo server on every address of 203.0.113.0/24. */
  async function startInWorld(config: Partial<LinkConfig> = {}): Promise<Link> {
    const real = binary;
    binary = await worldScript(directory, real);
    const link = await start(config);
    binary = real;
    const server = await echoIn(`/proc/${link.pid}/ns/net`, worldPort);
    stops.push(() => {
      server[Symbol.dispose]();
    });
    return link;
  }

  async function echo(link: Link, port: number): Promise<void> {
    const server = await echoIn(link.netnsPath, port);
    stops.push(() => {
      server[Symbol.dispose]();
    });
  }

  it("admits clients only while the gate is open, and the cell always", async () => {
    const link = await start();
    await echo(link, sandboxPort);
    await expect(link.dial(sandboxPort)).rejects.toMatchObject({ code: "SandboxNotReady" });
    const control = await link.dial(sandboxPort, { control: true });
    expect(await say(control, "from the cell")).toBe("from the cell");

    await link.setGate(true);
    const client = await link.dial(sandboxPort);
    expect(await say(client, "from a client")).toBe("from a client");

    const ended = once(client, "end");
    await link.setGate(false);
    await ended;
    expect(await say(control, "still here")).toBe("still here");
    control.destroy();
  });

  it("proxies a megabyte in both directions and forwards a half-close", async () => {
    const link = await start();
    await echo(link, sandboxPort);
    const stream = await link.dial(sandboxPort, { control: true });
    const sent = Buffer.alloc(1 << 20, "ramet ");
    stream.end(sent);
    expect(Buffer.concat((await stream.toArray()) as Buffer[]).equals(sent)).toBe(true);
  });

  it("reports a port without a listener, and reserves the guest's control port for the cell", async () => {
    const link = await start();
    await link.setGate(true);
    await expect(link.dial(9)).rejects.toMatchObject({ code: "Unavailable", retryable: true });
    await expect(link.dial(49_982)).rejects.toMatchObject({ code: "Forbidden" });
  });

  it("serves a declared port while the gate is open", async () => {
    // No other process uses a port of this address.
    const listen = `127.71.${addressBlock()}.1`;
    const link = await start({ listen, ports: [sandboxPort] });
    await echo(link, sandboxPort);
    const call = (word: string) => say(connect(sandboxPort, listen), word);
    await expect(call("x")).rejects.toMatchObject({ code: "ECONNREFUSED" });
    await link.setGate(true);
    expect(await call("hello")).toBe("hello");
    await link.setGate(false);
    await expect(call("x")).rejects.toMatchObject({ code: "ECONNREFUSED" });
    await link.setGate(true);
    expect(await call("again")).toBe("again");
  });

  it("fails to start if a declared port is in use, and names it", async () => {
    const { port, close } = await listenOutside();
    stops.push(close);
    await expect(start({ listen: "127.0.0.1", ports: [port] })).rejects.toMatchObject({
      code: "Conflict",
      message: expect.stringContaining(`127.0.0.1:${port}`) as string,
    });
  });

  it("relays DNS, also responses that need TCP, only while the gate is open", async () => {
    const many = Array.from({ length: 60 }, (_, i) => `192.0.2.${i + 1}`);
    const dns = await startDnsStandIn({ "a.example.test": ["192.0.2.7"], "many.example.test": many });
    stops.push(() => {
      dns.close();
    });
    const link = await start({ dns: { upstreams: [dns.address] } });
    expect(await resolveFromInside(link, "a.example.test")).toBe("EREFUSED");
    expect(dns.asked).toEqual([]);
    await link.setGate(true);
    expect(await resolveFromInside(link, "a.example.test")).toBe("192.0.2.7");
    expect(await resolveFromInside(link, "none.example.test")).toBe("ENOTFOUND");
    expect((await resolveFromInside(link, "many.example.test")).split(",")).toHaveLength(60);
  });

  it("resolves only names that the policy allows", async () => {
    const dns = await startDnsStandIn({ "a.example.test": ["192.0.2.7"], "secret.evil.test": ["192.0.2.8"] });
    stops.push(() => {
      dns.close();
    });
    const egress: EgressPolicy = { default: "deny", allow: ["*.example.test:443"], deny: [] };
    const link = await start({ dns: { upstreams: [dns.address] }, egress });
    await link.setGate(true);
    expect(await resolveFromInside(link, "a.example.test")).toBe("192.0.2.7");
    expect(await resolveFromInside(link, "secret.evil.test")).toBe("EREFUSED");
    expect(dns.asked).toEqual(["a.example.test"]);
  });

  it("allows an address of the Pod only if a rule names it and the gate is open", async () => {
    const link = await startInWorld();
    const call = () => callFromInside(link, podAddress, worldPort);
    await link.setGate(true);
    expect(await call()).toBe("ECONNRESET");
    await link.setEgress({ default: "allow", allow: ["0.0.0.0/0", "*"], deny: [] });
    expect(await call()).toBe("ECONNRESET");
    await link.setEgress({ default: "deny", allow: [`${podAddress}:${worldPort}`], deny: [] });
    expect(await call()).toBe("hello");
    await link.setEgress({ default: "deny", allow: [podAddress], deny: [`${podAddress}:${worldPort}`] });
    expect(await call()).toBe("ECONNRESET");
    await link.setEgress({ default: "deny", allow: [podAddress], deny: [] });
    await link.setGate(false);
    expect(await call()).toBe("ECONNRESET");
  });

  it("allows egress by default, except to the cluster's ranges", async () => {
    const link = await startInWorld({ refuse: ["203.0.113.128/25"] });
    await link.setGate(true);
    expect(await callFromInside(link, "203.0.113.5", worldPort)).toBe("hello");
    expect(await callFromInside(link, "203.0.113.200", worldPort)).toBe("ECONNRESET");
    await link.setEgress({ default: "allow", allow: ["203.0.113.200"], deny: [] });
    expect(await callFromInside(link, "203.0.113.200", worldPort)).toBe("hello");
  });

  it("closes connections that a new policy denies", async () => {
    const link = await startInWorld();
    await link.setGate(true);
    const lasting = callFromInsideUntilClosed(link, "203.0.113.5", worldPort);
    await lasting.established;
    await link.setEgress({ default: "allow", allow: [], deny: ["203.0.113.0/24"] });
    expect(await lasting.end).toBe("ECONNRESET");
  });

  it("denies the metadata address even if everything is allowed", async () => {
    const link = await start({ egress: { default: "allow", allow: ["*", "0.0.0.0/0"], deny: [] } });
    await link.setGate(true);
    expect(await callFromInside(link, "169.254.169.254", 80)).toBe("ECONNRESET");
  });

  it("names an invalid rule", async () => {
    const link = await start();
    await expect(
      link.setEgress({ default: "deny", allow: ["10.0.0.0/8", "10.0.0.0/99"], deny: [] }),
    ).rejects.toMatchObject({
      code: "InvalidArgument",
      message: expect.stringContaining('allow[1] is "10.0.0.0/99"') as string,
    });
  });

  it("leaves no process, namespace or interface behind when it is killed", async () => {
    const own = await networkNamespaces(process.pid);
    const link = await start();
    const made = (await networkNamespaces(link.pid)).filter((name) => !own.includes(name));
    expect(new Set(made).size).toBe(2);
    const inside = await processesIn(made);
    expect(inside).toContain(link.pid);
    process.kill(link.pid, "SIGKILL");
    expect(await link.closed).toContain("SIGKILL");
    // The kernel gives the number of a namespace that has ended to the next one, which another test may have created.
    const after = await processesIn(made);
    expect(inside.filter((pid) => after.includes(pid))).toEqual([]);
    expect(networkInterfaces()).not.toHaveProperty("ramet0");
    await expect(readdir(`/proc/${link.pid}`)).rejects.toMatchObject({ code: "ENOENT" });
    await expect(link.prepare()).rejects.toMatchObject({ code: "Unavailable" });
  });

  it("exits when its input ends", async () => {
    const link = await start();
    await link.stop();
    expect(await link.closed).toBe("link was stopped");
    await expect(readdir(`/proc/${link.pid}`)).rejects.toMatchObject({ code: "ENOENT" });
  });
});

/** Sends a word and returns the next data. */
async function say(stream: Duplex, word: string): Promise<string> {
  stream.on("error", () => undefined); // tests await the end of the stream instead
  stream.write(word);
  const [data] = (await once(stream, "data")) as [Buffer];
  return data.toString();
}

async function listenOutside(): Promise<{ port: number; close: () => Promise<unknown> }> {
  const server = createServer().listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;
  return { port, close: () => new Promise((closed) => server.close(closed)) };
}

/** Returns the network namespace of each thread of a process. */
async function networkNamespaces(pid: number): Promise<string[]> {
  const tasks = await readdir(`/proc/${pid}/task`).catch(() => []);
  const names = tasks.map((task) => readlink(`/proc/${pid}/task/${task}/ns/net`).catch(() => undefined));
  return (await Promise.all(names)).filter((name) => name !== undefined);
}

/** Returns the processes of this machine with a thread in one of these network namespaces. */
async function processesIn(namespaces: readonly string[]): Promise<number[]> {
  const found: number[] = [];
  for (const pid of (await readdir("/proc")).filter((name) => /^[0-9]+$/.test(name)).map(Number))
    if ((await networkNamespaces(pid)).some((name) => namespaces.includes(name))) found.push(pid);
  return found;
}
