import { createHash, randomBytes } from "node:crypto";
import { once } from "node:events";
import { connect, type ClientHttp2Session, type IncomingHttpHeaders, type IncomingHttpStatusHeader } from "node:http2";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { buffer, text } from "node:stream/consumers";
import { credentials, Metadata, type ServiceError, status } from "@grpc/grpc-js";
import { Agent, request } from "undici";
import { afterAll, beforeAll, describe, expect, it, vi } from "vitest";
import { guestClientPort } from "../../src/api/wire/cell-api.ts";
import { issueCertificate } from "../../src/local/control-plane/certificate.ts";
import { bundledGrpcServer, type GrpcClient, grpcClient } from "../setup/grpc-program.ts";
import { accountToken, allowToReach, ask, type RunningGateway, startGateway } from "../setup/gateway.ts";
import { openCluster, type Cluster } from "./controllers-cluster.ts";
import { realNode } from "./controllers-real-node.ts";
import { programPort, programTemplate } from "./gateway-program.ts";

/** HTTP/2 through a real gateway to programs in real sandboxes, and gRPC with a real client and server. */
let cluster: Cluster;
let gateway: RunningGateway;
let token: string;
let session: ClientHttp2Session;

const namespace = "t";
const at = { id: "t--web", port: programPort };
const grpcPort = 50_051;
const long = { timeout: 60_000 };

beforeAll(async () => {
  cluster = await openCluster({ startNode: realNode() });
  await cluster.namespace(namespace);
  gateway = await startGateway(cluster.client);
  token = await accountToken(cluster.client, { namespace, name: "agent" });
  await allowToReach(cluster.client, namespace, { namespace, name: "agent" });
  await allowToReach(cluster.client, namespace, { namespace, name: "agent" }, "exec");
  await make("web", programTemplate);
  session = connect(`http://127.0.0.1:${gateway.port}`, { maxSessionMemory: 1000 });
  await vi.waitFor(async () => {
    expect((await ask(gateway, at, { token })).status).toBe(404);
  }, long);
});
afterAll(async () => {
  session.close();
  gateway.end();
  await gateway.ended;
  await cluster.close();
});

async function make(name: string, template?: object, annotations: Record<string, string> = {}): Promise<void> {
  const spec = template === undefined ? {} : { template };
  const metadata = { name, namespace, annotations };
  await cluster.create({ apiVersion: "agents.kruise.io/v1alpha1", kind: "Sandbox", metadata, spec });
  await cluster.sandbox(`t/${name}`, ({ status: now }) => now?.phase === "Running");
}

const addressed = (id = "t--web", port = programPort): Record<string, string> => ({
  "e2b-sandbox-id": id,
  "e2b-sandbox-port": String(port),
  "ramet-access-token": token,
});

type Head = IncomingHttpHeaders & IncomingHttpStatusHeader;

async function exchange(
  headers: Record<string, string | string[]>,
  body?: Buffer,
): Promise<{ head: Head; body: Buffer }> {
  const stream = session.request(headers, { endStream: body === undefined });
  if (body !== undefined) stream.end(body);
  const [head] = (await once(stream, "response")) as [Head];
  return { head, body: await buffer(stream) };
}

describe("requests over HTTP/2 without TLS", () => {
  it("reach programs that speak HTTP/1.1, also many at a time on one connection", async () => {
    const bodies = Array.from({ length: 20 }, () => randomBytes(1 << 20));
    const answers = await Promise.all(
      bodies.map((body) => exchange({ ":method": "POST", ":path": "/sum", ...addressed() }, body)),
    );
    expect(answers.map(({ body }) => body.toString())).toEqual(
      bodies.map((body) => createHash("sha256").update(body).digest("hex")),
    );
    expect(answers[0]?.head[":status"]).toBe(200);
  });

  it("have the headers of HTTP/1.1 in the sandbox, and not the token", async () => {
    const host = `${programPort}-t--web.sandboxes.example.org`;
    const { head, body } = await exchange({
      ":path": "/headers",
      ":authority": host,
      "ramet-access-token": token,
      cookie: ["a=1", "b=2"],
      te: "trailers",
    });
    expect(head[":status"]).toBe(200);
    const got = new Map(
      (JSON.parse(body.toString()) as [string, string][]).map(([name, value]) => [name.toLowerCase(), value]),
    );
    expect(Object.fromEntries(got)).toMatchObject({ host, cookie: "a=1; b=2", "x-forwarded-for": "127.0.0.1" });
    expect(got.has("te")).toBe(false);
    expect(body.toString()).not.toContain(token);
    const cookies = await exchange({ ":path": "/cookies", ...addressed() });
    expect(cookies.head["set-cookie"]).toEqual(["a=1", "b=2"]);
    expect(cookies.head["x-own"]).toBeUndefined();
    const { head: ofHead, body: empty } = await exchange({ ":method": "HEAD", ":path": "/headers", ...addressed() });
    expect([ofHead[":status"], empty.length]).toEqual([501, 0]);
  });

  it("get errors of the gateway as JSON, and a reset when a response is incomplete", async () => {
    const refused = await exchange({ ":path": "/", "e2b-sandbox-id": "t--web", "e2b-sandbox-port": "9000" });
    expect(refused.head[":status"]).toBe(401);
    expect(JSON.parse(refused.body.toString())).toMatchObject({ code: 401, reason: "Unauthorized" });
    expect((await exchange({ ":path": "/init", ...addressed("t--web", guestClientPort) })).head[":status"]).toBe(404);
    expect((await exchange({ ":path": "/healthz" })).body.toString()).toBe("ok\n");
    const broken = session.request({ ":path": "/broken", ...addressed() });
    await expect(text(broken)).rejects.toThrow();
  });

  it("stream events immediately, and end at the program when the client resets the stream", async () => {
    const before = Number((await ask(gateway, at, { token, path: "/disconnected" })).text);
    const endless = session.request({ ":path": "/endless", ...addressed() });
    endless.on("error", () => undefined);
    await once(endless, "data");
    endless.close(8);
    await expect
      .poll(async () => Number((await ask(gateway, at, { token, path: "/disconnected" })).text), long)
      .toBe(before + 1);
    expect((await exchange({ ":path": "/headers", ...addressed() })).head[":status"]).toBe(200);
  });
});

describe("gRPC with a real client and server", () => {
  let client: GrpcClient;

  beforeAll(async () => {
    await make("grpc", grpcTemplate);
    const files = {
      "/srv/node": await readFile(process.execPath),
      "/srv/server.cjs": await bundledGrpcServer(),
      "/srv/all": "",
    };
    for (const [path, body] of Object.entries(files)) {
      const headers = { "content-type": "application/octet-stream" };
      const question = { token, method: "POST", path: `/files?path=${path}`, body, headers };
      expect((await ask(gateway, { id: "t--grpc", port: guestClientPort }, question)).status).toBe(200);
    }
    client = grpcClient(`127.0.0.1:${gateway.port}`, credentials.createInsecure());
    await vi.waitFor(async () => {
      expect((await say("ready")).answer).toBe("ready ");
    }, long);
  }, 180_000);
  afterAll(() => {
    client.close();
  });

  const metadata = (more: Record<string, string> = {}): Metadata =>
    Metadata.fromHttp2Headers({ ...addressed("t--grpc", grpcPort), ...more });

  /** Calls a method with one message, and returns the answer with its header and trailer. */
  function say(
    message: string,
    given = metadata(),
    method: "Say" | "Canceled" = "Say",
  ): Promise<{ answer: string; header: Metadata | undefined; trailer: Metadata }> {
    return new Promise((resolve, reject) => {
      let [answer, header]: [string, Metadata | undefined] = ["", undefined];
      const call = client[method](message, given, (error, value = "") => {
        if (error !== null) reject(error);
        answer = value;
      });
      call.on("metadata", (received) => (header = received));
      call.on("status", ({ metadata: trailer }) => {
        resolve({ answer, header, trailer });
      });
    });
  }

  it("makes unary calls with metadata, header, trailer and status, on a loopback address of the sandbox", async () => {
    const { answer, header, trailer } = await say("hello", metadata({ "x-asked": "yes" }));
    expect([answer, header?.get("x-header"), trailer.get("x-trailer")]).toEqual(["hello yes", ["first"], ["last"]]);
    const failed = await say("fail").catch((error: unknown) => error as ServiceError);
    expect(failed).toMatchObject({ code: status.FAILED_PRECONDITION, details: "ä 100%" });
    expect((failed as ServiceError).metadata.get("x-trailer")).toEqual(["last"]);
    const large = "x".repeat(3 << 20);
    expect((await say(large)).answer.length).toBe(large.length + 1);
    const all = await Promise.all(Array.from({ length: 300 }, (_, at) => say(`call ${at}`)));
    expect(all.map(({ answer: one }) => one)).toEqual(Array.from({ length: 300 }, (_, at) => `call ${at} `));
  });

  it("streams from the server, from the client and in both directions, with flow control", async () => {
    const seen: number[] = [];
    for await (const number of client.Count("20000", metadata())) seen.push(Number(number));
    expect(seen).toEqual(Array.from({ length: 20_000 }, (_, at) => at + 1));

    const added = Promise.withResolvers<string>();
    const adding = client.Add(metadata(), (error, answer = "") => {
      if (error === null) added.resolve(answer);
      else added.reject(error);
    });
    for (let sent = 0; sent < 500; sent++) if (!adding.write("x".repeat(10_000))) await once(adding, "drain");
    adding.end();
    expect(await added.promise).toBe("500 5000000");

    const echoing = client.Echo(metadata());
    const echoes = echoing[Symbol.asyncIterator]() as AsyncIterator<string>;
    for (const word of ["one", "two", "three"]) {
      echoing.write(word);
      expect((await echoes.next()).value).toBe(`echo ${word}`);
    }
    echoing.end();
    expect((await echoes.next()).done).toBe(true);
  });

  it("cancels the call in the sandbox when the client cancels, or its deadline passes", async () => {
    const canceled = async () => Number((await say("x", metadata(), "Canceled")).answer);
    // The server also counts a call that has ended.
    const before = await canceled();
    const endless = client.Count("forever", metadata());
    endless.on("error", () => undefined);
    await once(endless, "data");
    endless.cancel();
    const late = client.Count("forever", metadata(), { deadline: Date.now() + 500 }).resume();
    const [error] = (await once(late, "error")) as [ServiceError];
    expect(error.code).toBe(status.DEADLINE_EXCEEDED);
    await expect.poll(canceled, long).toBe(before + 2);
  });

  it("gets refusals of the gateway as gRPC statuses with the reason and the hint", async () => {
    const refusal = (given: Metadata) =>
      say("x", given).then(
        () => undefined,
        (error: unknown) => error as ServiceError,
      );
    const without = metadata();
    without.remove("ramet-access-token");
    expect(await refusal(without)).toMatchObject({ code: status.UNAUTHENTICATED });
    const stolen = metadata({ "e2b-sandbox-id": "other--grpc" });
    expect(await refusal(stolen)).toMatchObject({ code: status.PERMISSION_DENIED });
    expect(await refusal(metadata({ "e2b-sandbox-port": "9" }))).toMatchObject({
      code: status.UNAVAILABLE,
      details: expect.stringContaining("Check that a program in the sandbox listens on this port") as string,
    });
    const http1 = metadata({ "e2b-sandbox-id": "t--web", "e2b-sandbox-port": String(programPort) });
    expect(await refusal(http1)).toMatchObject({
      code: status.UNAVAILABLE,
      details: expect.stringContaining("does not speak HTTP/2") as string,
    });
  });

  it("reaches a clone, and the source after a checkpoint has broken its connections", async () => {
    const spec = { sandboxName: "grpc" };
    const apiVersion = "agents.kruise.io/v1alpha1";
    await cluster.create({ apiVersion, kind: "Checkpoint", metadata: { name: "c", namespace }, spec });
    const { status: taken } = await cluster.checkpoint("t/c", ({ status: now }) => now?.phase === "Succeeded");
    expect((await say("after")).answer).toBe("after ");
    await make("copy", undefined, { "ramet.dev/restore-from": taken?.checkpointId ?? "" });
    expect((await say("copied", metadata({ "e2b-sandbox-id": "t--copy" }))).answer).toBe("copied ");
  });
});

describe("TLS", () => {
  it("offers HTTP/2 and HTTP/1.1 by ALPN, and proxies gRPC", async () => {
    const { directory, certificate: ca } = await certificateFiles();
    const tls = { certificate: join(directory, "tls.crt"), key: join(directory, "tls.key") };
    const secure = await startGateway(cluster.client, { tls });
    const url = `https://127.0.0.1:${secure.port}`;
    const http2 = connect(url, { ca });
    const stream = http2.request({ ":path": "/headers", ...addressed() });
    const answer = JSON.parse(await text(stream)) as [string, string][];
    expect(answer.find(([name]) => name.toLowerCase() === "x-forwarded-proto")?.[1]).toBe("https");
    http2.close();

    const http1 = new Agent({ connect: { ca }, allowH2: false });
    const { statusCode, body } = await request(`${url}/headers`, { headers: addressed(), dispatcher: http1 });
    expect([statusCode, await body.text()]).toEqual([200, expect.stringContaining("https")]);
    const plain = request(`http://127.0.0.1:${secure.port}/healthz`);
    await expect(plain).rejects.toThrow();
    await http1.close();

    const grpc = grpcClient(`127.0.0.1:${secure.port}`, credentials.createSsl(Buffer.from(ca)));
    const said = new Promise((resolve, reject) => {
      const metadata = Metadata.fromHttp2Headers(addressed("t--grpc", grpcPort));
      grpc.Say("secret", metadata, (error, value) => {
        if (error === null) resolve(value);
        else reject(error);
      });
    });
    expect(await said).toBe("secret ");
    grpc.close();
    secure.end();
    await secure.ended;
    await rm(directory, { recursive: true });
  });
});

async function certificateFiles(): Promise<{ directory: string; certificate: string }> {
  const directory = await mkdtemp(join(tmpdir(), "ramet-"));
  const validity = { now: new Date(), validDays: 1 };
  const authority = await issueCertificate({ commonName: "gateway test", use: "authority", ...validity });
  const { certificate, key } = await issueCertificate(
    { commonName: "gateway", use: "server", hosts: ["127.0.0.1"], ...validity },
    authority,
  );
  await writeFile(join(directory, "tls.crt"), certificate);
  await writeFile(join(directory, "tls.key"), key);
  return { directory, certificate: authority.certificate };
}

/** Waits for its program, which is larger than an object of the API may be. It listens on 127.0.0.1 only. */
const grpcTemplate = {
  spec: {
    terminationGracePeriodSeconds: 1,
    containers: [
      {
        name: "main",
        image: "python",
        command: [
          "sh",
          "-c",
          `until [ -e /srv/all ]; do sleep 0.1; done; chmod +x /srv/node; exec /srv/node /srv/server.cjs ${grpcPort}`,
        ],
      },
    ],
  },
};
