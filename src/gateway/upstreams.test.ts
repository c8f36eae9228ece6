import { once } from "node:events";
import { createServer as createPlainServer } from "node:http";
import { createServer } from "node:https";
import { type AddressInfo, connect, type Server } from "node:net";
import { afterAll, expect, it } from "vitest";
import { issueCertificate } from "../local/control-plane/certificate.ts";
import { readRoutedSandbox } from "./routed-sandbox.ts";
import { hostFor, Upstreams } from "./upstreams.ts";

/** The programs of a sandbox; a stand-in for its cell connects to them. */
const { certificate: cert, key } = await issueCertificate({
  commonName: "inner",
  use: "server",
  hosts: ["inner"],
  now: new Date(),
  validDays: 1,
});
const secure = createServer({ cert, key }, (request, response) => response.end(`secure ${request.headers.host ?? ""}`));
const plain = createPlainServer((request, response) => response.end(`plain ${request.headers.host ?? ""}`));
const [securePort, plainPort] = await Promise.all([secure, plain].map(listen));
const cells = { dial: (_: unknown, port: number) => Promise.resolve(connect(port, "127.0.0.1")) };

const sandbox = readRoutedSandbox({
  metadata: {
    namespace: "default",
    name: "one",
    uid: "u1",
    resourceVersion: "1",
    annotations: {
      "ramet.dev/https-ports": `${securePort},49983`,
      "ramet.dev/request-host": "inner.example:${PORT}",
    },
  },
});
const upstreams = new Upstreams(cells, () => sandbox);
const routeTo = (port = 0) => ({ sandbox, title: "sandbox one", port });

afterAll(async () => {
  await upstreams.close();
  for (const server of [secure, plain]) server.close();
});

async function listen(server: Server): Promise<number> {
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  return (server.address() as AddressInfo).port;
}

async function ask(port = 0): Promise<string> {
  const route = routeTo(port);
  const headers = { host: hostFor(route) ?? "none" };
  const answer = await upstreams.dispatcher.request({
    origin: upstreams.originOf(route),
    path: "/",
    method: "GET",
    headers,
  });
  return answer.body.text();
}

it("connects to ports that serve HTTPS with TLS, and to all others without", async () => {
  expect(await ask(securePort)).toBe(`secure inner.example:${securePort}`);
  expect(await ask(plainPort)).toBe(`plain inner.example:${plainPort}`);
});

it("names a program that does not serve HTTPS", async () => {
  const other = { ...sandbox, httpsPorts: [plainPort ?? 0] };
  await expect(upstreams.dial({ ...routeTo(plainPort), sandbox: other })).rejects.toMatchObject({
    code: "SandboxUnreachable",
  });
});

it("changes neither the host nor the protocol of the guest", () => {
  expect(hostFor(routeTo(49_983))).toBeUndefined();
  expect(upstreams.originOf(routeTo(49_983))).toBe("http://u1:49983");
});

it("closes the connections to an earlier Pod of a sandbox when it has another one, and all when it is deleted", async () => {
  const at = (ip: string, cellKey: string) => ({ ...sandbox, ip, cellKey });
  const dial = (to: typeof sandbox) => upstreams.dial({ ...routeTo(plainPort), sandbox: to });
  const [earlier, sameAddress, current] = [
    await dial(at("127.0.0.2", "a")),
    await dial(at("127.0.0.3", "b")),
    await dial(at("127.0.0.3", "c")),
  ];
  const isOpen = () => [earlier, sameAddress, current].map(({ destroyed }) => !destroyed);
  const { ip: _, ...withoutPod } = at("", "a");
  upstreams.closeEarlier(withoutPod, false);
  expect(isOpen()).toEqual([true, true, true]);
  upstreams.closeEarlier(at("127.0.0.3", "c"), false);
  expect(isOpen()).toEqual([false, false, true]);
  upstreams.closeEarlier(at("127.0.0.3", "c"), true);
  expect(isOpen()).toEqual([false, false, false]);
});
