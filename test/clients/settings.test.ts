import { Sandbox, Template } from "e2b";
import { request } from "undici";
import { afterAll, beforeAll, expect, it } from "vitest";
import * as z from "zod";
import { envdVersion } from "../../src/cell/client/guest-wire.ts";
import { checkpointKind } from "../../src/api/kinds/checkpoint.ts";
import { namedSnapshotKind } from "../../src/api/kinds/named-snapshot.ts";
import { sandboxKind } from "../../src/api/kinds/sandbox.ts";
import { sandboxTemplateKind } from "../../src/api/kinds/sandbox-template.ts";
import { ObjectMeta } from "../../src/kube/object.ts";
import { coreResources, refOf } from "../../src/kube/resource-ref.ts";
import { issueCertificate } from "../../src/local/control-plane/certificate.ts";
import { ClientWorld } from "./client-world.ts";
import { askSecurely } from "./secure-request.ts";

/** The settings of E2B's clients, and who can read them, on a real local cluster. */
let world: ClientWorld;
let options: Awaited<ReturnType<ClientWorld["connection"]>>;

beforeAll(async () => {
  world = await ClientWorld.shared("settings");
  options = await world.connection();
});
afterAll(() => world.close());

it.each(["base", "stock"])("variables of a sandbox from %s are in no object at any time", async (template) => {
  if (template === "stock") await world.createSet("stock", 1);
  const sandboxes = world.client.resource(refOf(sandboxKind));
  const { resourceVersion } = await sandboxes.list({ namespace: world.namespace });
  const ending = new AbortController();
  const seen: string[] = [];
  const watched = (async () => {
    const watching = { namespace: world.namespace, resourceVersion, timeoutSeconds: 120, stallMilliseconds: 120_000 };
    for await (const event of sandboxes.watch({ ...watching, signal: ending.signal })) {
      if (event.type !== "BOOKMARK") seen.push(JSON.stringify(event.object));
    }
  })().catch(() => undefined);
  const sandbox = await Sandbox.create(template, { ...options, envs: { TOKEN: "s3cr3t-v4lue" } });
  expect((await sandbox.commands.run("echo $TOKEN")).stdout).toBe("s3cr3t-v4lue\n");
  await sandbox.kill();
  ending.abort();
  await watched;
  expect(seen.join("\n")).toContain("sealed-init-request");
  expect(seen.join("\n")).not.toContain("s3cr3t");
});

it("a sandbox gets the host that its client has set, also on a port that serves HTTPS", async () => {
  const network = { maskRequestHost: "inner.example:${PORT}", httpsPorts: [8443] };
  const sandbox = await Sandbox.create("base", { ...options, network });
  const now = new Date();
  const { certificate, key } = await issueCertificate({
    commonName: "a",
    use: "server",
    hosts: ["a"],
    now,
    validDays: 1,
  });
  await sandbox.files.write("/srv/pair.pem", `${certificate}\n${key}`);
  await sandbox.files.write("/srv/serve.py", program);
  await sandbox.commands.run("python3 /srv/serve.py", { background: true });
  for (const port of [8443, 8080]) {
    const ask = () => askSecurely(world.cluster, { protocol: "HTTP/1.1", host: `${port}-${sandbox.sandboxId}` });
    await expect.poll(ask).toEqual({ status: 200, text: `inner.example:${port}` });
  }
  const { network: shown } = await sandbox.getInfo();
  expect(shown).toMatchObject({ allowPublicTraffic: true, maskRequestHost: network.maskRequestHost });
  const [fork] = await sandbox.fork({ count: 1 });
  expect((await (fork as Sandbox).getInfo()).network).toMatchObject({ maskRequestHost: network.maskRequestHost });
  await sandbox.kill();
});

const program = `
import http.server, ssl, threading

class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        self.wfile.write(self.headers["Host"].encode())

def serve(port, secure):
    server = http.server.ThreadingHTTPServer(("", port), Handler)
    if secure:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain("/srv/pair.pem")
        server.socket = context.wrap_socket(server.socket, server_side=True)
    server.serve_forever()

threading.Thread(target=serve, args=(8080, False)).start()
serve(8443, True)
`;

it("the fork of a sandbox without public ports and internet access has neither", async () => {
  const network = { allowPublicTraffic: false, denyOut: ["0.0.0.0/0"] };
  const sandbox = await Sandbox.create("base", { ...options, network });
  const [fork] = await sandbox.fork({ count: 1 });
  expect((await (fork as Sandbox).getInfo()).network).toMatchObject(network);
});

it("credentials of a registry are in one Secret only, which is deleted with the template", async () => {
  const template = Template().fromImage("python", { username: "robot", password: "s3cr3t-l0gin" }).runCmd("true");
  await Template.build(template, "private", options);
  const kinds = [sandboxTemplateKind, namedSnapshotKind, sandboxKind, checkpointKind];
  for (const kind of kinds) {
    const { items } = await world.client.resource(refOf(kind)).list({ namespace: world.namespace });
    expect(JSON.stringify(items)).not.toContain("s3cr3t");
  }
  const { items } = await world.client.resource(coreResources.secrets).list({ namespace: world.namespace });
  const secrets = items.filter(({ metadata }) => metadata.name.startsWith("ramet-registry-"));
  expect(secrets).toEqual([
    expect.objectContaining({
      type: "kubernetes.io/dockerconfigjson",
      data: { ".dockerconfigjson": expect.any(String) as string },
    }),
  ]);
  const secret = z.looseObject({ metadata: ObjectMeta, data: z.record(z.string(), z.string()) }).parse(secrets[0]);
  const { metadata, data } = secret;
  expect(metadata.ownerReferences).toEqual([expect.objectContaining({ kind: "NamedSnapshot", name: "private" })]);
  expect(JSON.parse(Buffer.from(data[".dockerconfigjson"] ?? "", "base64").toString())).toEqual({
    auths: { "https://index.docker.io/v1/": { username: "robot", password: "s3cr3t-l0gin" } },
  });
  const templates = await world.client.resource(refOf(sandboxTemplateKind)).list({ namespace: world.namespace });
  const uses = (value: object) => JSON.stringify(value).includes(`"imagePullSecrets":[{"name":"${metadata.name}"}]`);
  const made = templates.items.filter(({ metadata }) => metadata.name.startsWith("image-")).filter(uses);
  expect(made.map((one) => one.metadata.ownerReferences)).toEqual([metadata.ownerReferences]);

  // The same credentials again: nothing is built again, and there is no other Secret.
  await Template.build(template, "private", options);
  const after = await world.client.resource(coreResources.secrets).list({ namespace: world.namespace });
  expect(after.items).toHaveLength(items.length);
});

it("a template is described with its builds and their logs", async () => {
  const { buildId } = await Template.build(Template().fromImage("python").runCmd("echo built"), "described", options);
  const get = async (path: string): Promise<{ status: number; body: unknown }> => {
    const { statusCode, body } = await request(`${world.apiUrl}${path}`, { headers: { "x-api-key": options.apiKey } });
    return { status: statusCode, body: await body.json() };
  };
  expect(await get("/templates/described")).toEqual({
    status: 200,
    body: expect.objectContaining({
      templateID: "described",
      names: [`${world.namespace}/described`],
      builds: [expect.objectContaining({ buildID: buildId, status: "ready", envdVersion })],
    }) as object,
  });
  const logs = `/templates/described/builds/${buildId}/logs`;
  const { body } = (await get(logs)) as { body: { logs: { message: string; timestamp: string }[] } };
  expect(body.logs.map(({ message }) => message).join("\n")).toContain("built");
  const last = Date.parse(body.logs.at(-1)?.timestamp ?? "");
  expect((await get(`${logs}?direction=backward&limit=1`)).body).toEqual({ logs: [body.logs.at(-1)] });
  expect((await get(`${logs}?cursor=${last + 1}`)).body).toEqual({ logs: [] });
  expect((await get("/templates/none")).status).toBe(404);
});
