import { once } from "node:events";
import { writeFile } from "node:fs/promises";
import {
  type ClientHttp2Session,
  connect,
  type IncomingHttpHeaders,
  type SecureClientSessionOptions,
} from "node:http2";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { connect as connectTls, type PeerCertificate } from "node:tls";
import { type ChannelCredentials, type ChannelOptions, credentials, Metadata } from "@grpc/grpc-js";
import { afterAll, beforeAll, describe, expect, it, vi } from "vitest";
import { issueCertificate } from "../../src/local/control-plane/certificate.ts";
import { bundledGrpcServer, grpcClient } from "../setup/grpc-program.ts";
import { cellSeccompProfile } from "./node.ts";
import { imageNames } from "./images.ts";
import { gateways, makeStoreSecret, openWorld, type World } from "./world.ts";

const long = { timeout: 90_000, interval: 250 };
const host = "ramet-gateway.ramet-system.svc";
const ports = { http: 8000, grpc: 50_051 };
const authority = await issueCertificate({ commonName: "test", use: "authority", now: new Date(), validDays: 1 });
const ca = authority.certificate;

/** Tests that HTTP/2 and gRPC pass through installed gateways to sandboxes in Pods, without TLS and with it. */
describe("installed gateways", () => {
  let world: World;
  let directory: string;
  let token: string;

  beforeAll(async () => {
    world = await openWorld();
    directory = join(world.directory, "kustomization");
    await install();
    const { kubectl, ramet } = world;
    await kubectl("create", "serviceaccount", "grpc-client");
    const resource = "--resource=sandboxes.agents.kruise.io/proxy";
    await kubectl("create", "role", "grpc-client", "--verb=create", resource);
    await kubectl("create", "rolebinding", "grpc-client", "--role=grpc-client", "--serviceaccount=default:grpc-client");
    token = (await kubectl("create", "token", "grpc-client", "--audience=ramet-gateway")).trim();

    await sandbox("web", imageNames.python, `cd /tmp; echo hello > file; exec python3 -m http.server ${ports.http}`);
    const waiting = "until [ -e /tmp/all ]; do sleep 0.1; done";
    await sandbox("grpc", imageNames.controller, `${waiting}; exec /usr/local/bin/node /tmp/server.cjs ${ports.grpc}`);
    const server = join(world.directory, "server.cjs");
    await writeFile(server, await bundledGrpcServer());
    await vi.waitFor(() => world.inSandbox("grpc", "echo up"), long);
    await ramet("sandbox", "cp", "--direct", server, "grpc:/tmp/server.cjs");
    await world.inSandbox("grpc", ": > /tmp/all");
  }, 600_000);
  afterAll(async () => {
    await world.kubectl("delete", "sandbox", "--all", "--wait=true");
    await world.kubectl("delete", "-f", join(directory, "deployment.yaml"));
  });

  async function install(...settings: string[]): Promise<void> {
    const { kubectl, ramet } = world;
    const address = `s3://checkpoints/http2?endpoint=${encodeURIComponent(world.s3.endpoint)}&allow-insecure=true`;
    const images = ["--image", imageNames.controller, "--cell-image", imageNames.cell, "--no-image-lookup"];
    const store = ["--store", address, "--store-secret", "s3"];
    const cells = ["--cell-seccomp-profile", cellSeccompProfile];
    await ramet("manifests", ...images, ...cells, ...store, ...settings, "--out", directory);
    await kubectl("apply", "-f", join(directory, "namespace.yaml"));
    await makeStoreSecret(world);
    await kubectl("apply", "-k", directory);
    for (const name of ["ramet-controller", "ramet-gateway"])
      await kubectl("rollout", "status", "-n", "ramet-system", `deployment/${name}`, "--timeout=180s");
  }

  function sandbox(name: string, image: string, script: string): Promise<void> {
    const containers = [{ name: "main", image, command: ["sh", "-c", script] }];
    return world.apply(
      JSON.stringify({
        apiVersion: "agents.kruise.io/v1alpha1",
        kind: "Sandbox",
        metadata: { name, namespace: "default" },
        spec: { template: { spec: { containers } } },
      }),
    );
  }

  async function addressOfGateway(): Promise<string> {
    const running = ["--field-selector=status.phase=Running", "--sort-by=.metadata.creationTimestamp"];
    const path = "jsonpath={.items[-1].status.podIP}";
    return `${await world.kubectl("get", "pods", ...gateways, ...running, "-o", path)}:8080`;
  }

  const addressed = (id: keyof typeof ports | "web"): Record<string, string> => ({
    "e2b-sandbox-id": `default--${id}`,
    "e2b-sandbox-port": String(id === "grpc" ? ports.grpc : ports.http),
    "ramet-access-token": token,
  });

  async function get(session: ClientHttp2Session): Promise<string> {
    const stream = session.request({ ":path": "/file", ...addressed("web") });
    const [head] = (await once(stream, "response")) as [IncomingHttpHeaders & { ":status"?: number }];
    return `${head[":status"]} ${await text(stream)}`;
  }

  /** Requests over HTTP/2, and calls over gRPC of all kinds. */
  async function passes(
    url: string,
    tls: SecureClientSessionOptions,
    grpc: [string, ChannelCredentials, ChannelOptions?],
  ): Promise<void> {
    const session = connect(url, tls);
    await expect.poll(() => get(session).catch(String), long).toBe("200 hello\n");
    const all = await Promise.all(Array.from({ length: 50 }, () => get(session)));
    expect(new Set(all)).toEqual(new Set(["200 hello\n"]));
    session.close();

    const client = grpcClient(...grpc);
    const metadata = Metadata.fromHttp2Headers({ ...addressed("grpc"), "x-asked": "yes" });
    const say = () =>
      new Promise<string>((resolve) => {
        client.Say("hello", metadata, (error, answer = "") => {
          resolve(error === null ? answer : String(error));
        });
      });
    await expect.poll(say, long).toBe("hello yes");
    const numbers: string[] = [];
    for await (const number of client.Count("5000", metadata)) numbers.push(String(number));
    expect([numbers.length, numbers.at(-1)]).toEqual([5000, "5000"]);
    const echoing = client.Echo(metadata);
    const echoes = echoing[Symbol.asyncIterator]() as AsyncIterator<string>;
    for (const word of ["one", "two"]) {
      echoing.write(word);
      expect((await echoes.next()).value).toBe(`echo ${word}`);
    }
    echoing.end();
    expect((await echoes.next()).done).toBe(true);
    client.close();
  }

  it("pass HTTP/2 and gRPC to sandboxes without TLS", async () => {
    const address = await addressOfGateway();
    await passes(`http://${address}`, {}, [address, credentials.createInsecure()]);
  });

  /** Creates or replaces the Secret, with a new certificate. */
  async function makeCertificate(): Promise<void> {
    const subject = { commonName: "gateway", hosts: [host], now: new Date(), validDays: 1 };
    const { certificate, key } = await issueCertificate({ ...subject, use: "server" }, authority);
    const data = { "tls.crt": certificate, "tls.key": key };
    const metadata = { name: "gateway-tls", namespace: "ramet-system" };
    const secret = { apiVersion: "v1", kind: "Secret", type: "kubernetes.io/tls", metadata, stringData: data };
    await world.apply(JSON.stringify(secret));
  }

  async function servedCertificate(): Promise<string> {
    const [ip = "", port] = (await addressOfGateway()).split(":");
    const socket = connectTls({ host: ip, port: Number(port), ca, servername: host });
    await once(socket, "secureConnect");
    const { serialNumber }: PeerCertificate = socket.getPeerCertificate();
    socket.destroy();
    return serialNumber;
  }

  it("pass them with TLS and the certificate of a Secret, and serve nothing without TLS then", async () => {
    await makeCertificate();
    await install("--gateway-tls-secret", "gateway-tls");
    const service = ["service", "ramet-gateway", "-n", "ramet-system", "-o", "jsonpath={.spec.ports[*].port}"];
    expect(await world.kubectl("get", ...service)).toBe("443");
    const address = await addressOfGateway();
    const channel = credentials.createSsl(Buffer.from(ca));
    const options = { "grpc.ssl_target_name_override": host };
    await passes(`https://${address}`, { ca, servername: host }, [address, channel, options]);
    await expect(fetch(`http://${address}/healthz`)).rejects.toThrow();
  }, 300_000);

  it("serve a renewed certificate without a restart", async () => {
    const before = await servedCertificate();
    await makeCertificate();
    // The kubelet updates the files within a quarter of a minute here, and the gateways read them every minute.
    await expect.poll(servedCertificate, { timeout: 240_000, interval: 2_000 }).not.toBe(before);
    const restarts = await world.kubectl("get", "pods", ...gateways, "-o", "jsonpath={..restartCount}");
    expect(new Set(restarts.trim().split(" "))).toEqual(new Set(["0"]));
  }, 300_000);
});
