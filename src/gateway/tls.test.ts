import { randomBytes } from "node:crypto";
import { once } from "node:events";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { type AddressInfo, connect as connectPlain, createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { connect, type TLSSocket } from "node:tls";
import { expect, it, onTestFinished } from "vitest";
import { ManualClock } from "../../test/setup/manual-clock.ts";
import { silentLog } from "../base/log.ts";
import { issueCertificate } from "../local/control-plane/certificate.ts";
import { onFirstBytes } from "./connections.ts";
import { TlsClients } from "./tls.ts";

const directory = await mkdtemp(join(tmpdir(), "ramet-"));
const files = { certificate: join(directory, "tls.crt"), key: join(directory, "tls.key") };

async function issue(commonName: string): Promise<void> {
  const now = new Date();
  const { certificate, key } = await issueCertificate({
    commonName,
    use: "server",
    hosts: ["localhost"],
    now,
    validDays: 1,
  });
  await writeFile(files.certificate, certificate);
  await writeFile(files.key, key);
}

it("serves a renewed certificate after a minute, and keeps the old one while the files are invalid", async () => {
  onTestFinished(() => rm(directory, { recursive: true }));
  const clock = new ManualClock();
  await issue("first");
  const tls = await TlsClients.open({ files, clock, log: silentLog, onSecure: (socket) => socket.end("x") });
  const server = createServer((socket) => {
    tls.accept(socket);
  }).listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;
  const servedName = async (): Promise<string | undefined> => {
    const socket = connect({ port, host: "127.0.0.1", rejectUnauthorized: false, ALPNProtocols: ["h2"] });
    await once(socket, "secureConnect");
    const name = socket.getPeerCertificate().subject.CN;
    expect(socket.alpnProtocol).toBe("h2");
    socket.destroy();
    return String(name);
  };
  expect(await servedName()).toBe("first");
  await writeFile(files.key, "no key");
  clock.advance(60_000);
  await expect.poll(() => clock.waits).toEqual([60_000]);
  expect(await servedName()).toBe("first");
  await issue("second");
  clock.advance(60_000);
  await expect.poll(() => clock.waits).toEqual([60_000]);
  expect(await servedName()).toBe("second");
  tls.close();
  server.close();
  expect(clock.waits).toEqual([]);
});

it("takes over a connection whose first bytes were read, in any pieces", async () => {
  const directory = await mkdtemp(join(tmpdir(), "ramet-"));
  onTestFinished(() => rm(directory, { recursive: true }));
  const now = new Date();
  const pair = await issueCertificate({ commonName: "a", use: "server", hosts: ["a"], now, validDays: 1 });
  const path = join(directory, "both.pem");
  await writeFile(path, pair.certificate + pair.key);
  const clock = new ManualClock();
  const onSecure = (socket: TLSSocket): void => {
    socket.pipe(socket);
  };
  const tls = await TlsClients.open({ files: { certificate: path, key: path }, clock, log: silentLog, onSecure });
  const server = createServer((socket) => {
    const answer = (text: string) => () => socket.end(text);
    onFirstBytes(socket, clock, {
      http1: answer("http1"),
      http2: answer("http2"),
      timeout: answer("timeout"),
      tls: () => {
        tls.accept(socket);
      },
    });
  }).listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;

  const secure = connect({ port, host: "127.0.0.1", rejectUnauthorized: false, ALPNProtocols: ["h2"] });
  await once(secure, "secureConnect");
  expect(secure.alpnProtocol).toBe("h2");
  const sent = randomBytes(1 << 20);
  const received: Buffer[] = [];
  secure.on("data", (chunk: Buffer) => received.push(chunk)).end(sent);
  await once(secure, "end");
  expect(Buffer.concat(received).equals(sent)).toBe(true);

  const plain = connectPlain({ port, host: "127.0.0.1" });
  plain.write("GET / HTTP/1.1\r\n\r\n");
  expect(String(await once(plain, "data"))).toBe("http1");
  for (const socket of [secure, plain]) socket.destroy();
  tls.close();
  server.close();
});

it("names files that cannot be used", async () => {
  const missing = { certificate: "/none/tls.crt", key: "/none/tls.key" };
  const options = { clock: new ManualClock(), log: silentLog, onSecure: () => undefined };
  await expect(TlsClients.open({ files: missing, ...options })).rejects.toMatchObject({
    code: "InvalidArgument",
    message: expect.stringContaining("/none/tls.crt") as string,
  });
});
