import { once } from "node:events";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { type AddressInfo, createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { connect } from "node:tls";
import { expect, it, onTestFinished } from "vitest";
import { ManualClock } from "../../test/setup/manual-clock.ts";
import { silentLog } from "../base/log.ts";
import { issueCertificate } from "../local/control-plane/certificate.ts";
import { TlsClients } from "./tls.ts";

const directory = await mkdtemp(join(tmpdir(), "ramet-"));
const files = { certificate: join(directory, "tls.crt"), key: join(directory, "tls.key") };

async function issue(commonName: string): Promise<void> {
  const now = new Date();
  const { certificate, key } = issueCertificate({ commonName, use: "server", hosts: ["localhost"], now, validDays: 1 });
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

it("names files that cannot be used", async () => {
  const missing = { certificate: "/none/tls.crt", key: "/none/tls.key" };
  const options = { clock: new ManualClock(), log: silentLog, onSecure: () => undefined };
  await expect(TlsClients.open({ files: missing, ...options })).rejects.toMatchObject({
    code: "InvalidArgument",
    message: expect.stringContaining("/none/tls.crt") as string,
  });
});
