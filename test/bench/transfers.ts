import { Sandbox } from "e2b";
import { request as send } from "undici";
import { clientSandboxId } from "../../src/api/pod/client-environment.ts";
import { guestClientPort } from "../../src/api/wire/cell-api.ts";
import { sandboxKind } from "../../src/api/kinds/sandbox.ts";
import type { ClientWorld } from "../clients/client-world.ts";
import { startBareHops } from "./bare-hops.ts";
import { stopwatch } from "./figure.ts";
import { summary } from "./samples.ts";

const transferBytes = 100 * 2 ** 20;
const transferPort = 8000;

export type Options = Awaited<ReturnType<ClientWorld["connection"]>>;

/**
 * MiB per second of 100 MiB: files with the SDK and with plain HTTP, and the bytes of a program in the sandbox.
 * @param set its sandboxes run `transferProgram`
 */
export async function measureTransfers(
  world: ClientWorld,
  { options, set }: { options: Options; set: string },
): Promise<Record<string, number>> {
  const sandbox = await Sandbox.create(set, options);
  try {
    const { sandboxId } = sandbox;
    return {
      ...(await transferFiles(sandbox)),
      ...(await transferPlainFiles(sandboxId, options)),
      ...(await transferByPort(world, sandboxId, options)),
    };
  } finally {
    await sandbox.kill();
  }
}

async function transferFiles(sandbox: Sandbox): Promise<Record<string, number>> {
  const blob = new Blob([new Uint8Array(transferBytes)]);
  const up = await rateOf(() => sandbox.files.write("/var/data", blob, { requestTimeoutMs: 120_000 }));
  const down = await rateOf(() =>
    sandbox.files.read("/var/data", { format: "bytes", requestTimeoutMs: 120_000 }).then(requireAll),
  );
  return { "files.write": up, "files.read": down };
}

async function transferPlainFiles(
  sandboxId: string,
  { apiUrl, apiKey, sandboxUrl }: Options,
): Promise<Record<string, number>> {
  const asked = await send(`${apiUrl}/sandboxes/${sandboxId}`, { headers: { "x-api-key": apiKey } });
  const { envdAccessToken } = (await asked.body.json()) as { envdAccessToken: string };
  const headers = {
    "e2b-sandbox-id": sandboxId,
    "e2b-sandbox-port": `${guestClientPort}`,
    "x-access-token": envdAccessToken,
  };
  const down = await rateOf(async () => {
    const { body } = await send(`${sandboxUrl}/files?path=/var/data`, { headers });
    requireAll(new Uint8Array(await body.arrayBuffer()));
  });
  const up = await rateOf(async () => {
    const { statusCode, body } = await send(`${sandboxUrl}/files?path=/var/data`, {
      method: "POST",
      headers: { ...headers, "content-type": "application/octet-stream" },
      body: Buffer.alloc(transferBytes),
    });
    const text = await body.text();
    if (statusCode !== 200) throw new Error(`the guest answered ${statusCode}: ${text}`);
  });
  return { "raw HTTP up, through the gateway": up, "raw HTTP down, through the gateway": down };
}

function requireAll({ length }: Uint8Array): void {
  if (length !== transferBytes) throw new Error(`${length} bytes arrived, and ${transferBytes} were sent`);
}

/**
 * Between the client and a program in the sandbox: at the address of the Pod, which needs no gateway, through the gateway, and
 * through two proxies that only copy, as gateway and cell do at least.
 */
async function transferByPort(
  world: ClientWorld,
  sandboxId: string,
  { sandboxUrl }: Options,
): Promise<Record<string, number>> {
  const sandboxes = world.client.of(sandboxKind);
  const { items } = await sandboxes.list({ namespace: "default" });
  const ip = items.find(({ metadata }) => clientSandboxId(metadata.uid) === sandboxId)?.status?.sandboxIp ?? "";
  const hops = await startBareHops({ host: ip, port: transferPort });
  const headers = { "e2b-sandbox-id": sandboxId, "e2b-sandbox-port": `${transferPort}` };
  const ways = {
    "the Pod's address": `http://${ip}:${transferPort}`,
    "two bare proxies": hops.origin,
    "the gateway": sandboxUrl,
  };
  const rates: Record<string, number[]> = {};
  const note = async (name: string, work: () => Promise<unknown>): Promise<void> => {
    (rates[name] ??= []).push(await rateOf(work));
  };
  try {
    for (let turn = 0; turn < turns; turn++) {
      for (const [name, origin] of Object.entries(ways)) {
        await note(`from a program, through ${name}`, async () => {
          const { body } = await send(origin, { headers });
          requireAll(new Uint8Array(await body.arrayBuffer()));
        });
        await note(`to a program, through ${name}`, async () => {
          const part = Buffer.alloc(transferBytes);
          const { statusCode, body } = await send(origin, { method: "POST", headers, body: part });
          await body.dump();
          if (statusCode !== 200) throw new Error(`the program answered ${statusCode}`);
        });
      }
    }
  } finally {
    hops.close();
  }
  return Object.fromEntries(Object.entries(rates).map(([name, values]) => [name, summary(values)!.p50]));
}

/** In turns. The first ones of a process are slower, because its code is not compiled yet. */
const turns = 5;

/** A program that sends and receives the bytes as fast as Python can. */
export const transferProgram = {
  ports: [{ containerPort: transferPort }],
  command: [
    "python3",
    "-c",
    `from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
part = bytes(2 ** 20)
class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def do_GET(self):
        self.send_response(200)
        self.send_header("Content-Length", str(100 * len(part)))
        self.end_headers()
        for _ in range(100):
            self.wfile.write(part)
    def do_POST(self):
        left = int(self.headers["Content-Length"])
        while left > 0:
            left -= len(self.rfile.read(min(left, len(part))))
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()
    def log_message(self, *_):
        pass
ThreadingHTTPServer(("", ${transferPort}), Handler).serve_forever()
`,
  ],
};

async function rateOf(work: () => Promise<unknown>): Promise<number> {
  const elapsed = stopwatch();
  await work();
  return transferBytes / 2 ** 20 / (elapsed() / 1000);
}
