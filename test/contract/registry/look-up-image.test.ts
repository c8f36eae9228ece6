import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { systemClock as clock } from "../../../src/base/clock.ts";
import { lookUpImage, type ImageRequest, recordImage } from "../../../src/registry/look-up-image.ts";
import { RegistryTransport } from "../../../src/registry/registry-transport.ts";
import { account, ownArchitecture, startRegistry, type TestRegistry } from "../../setup/registry.ts";
import { startTokenServer, type TokenServer } from "../../setup/registry-tokens.ts";

const image = {
  Entrypoint: ["python3", "server.py"],
  Cmd: ["--port", "8000"],
  Env: ["GREETING=hello world", "PATH=/usr/bin"],
  WorkingDir: "/srv/app",
  User: "agent:staff",
};
const config = {
  entrypoint: image.Entrypoint,
  cmd: image.Cmd,
  env: image.Env,
  workingDir: image.WorkingDir,
  userName: image.User,
  architecture: ownArchitecture,
};
const otherArchitecture = ownArchitecture === "amd64" ? "arm64" : "amd64";

let transport: RegistryTransport;
afterAll(() => transport.close());

function lookUp(name: string, rest: Partial<ImageRequest> = {}) {
  return lookUpImage({ name, preferred: ownArchitecture, keyring: [], ...rest }, { transport, clock });
}

describe("a registry that anyone may read", () => {
  let registry: TestRegistry;
  beforeAll(async () => {
    registry = await startRegistry();
    transport = new RegistryTransport({ insecureRegistries: [registry.host] });
  });
  afterAll(() => registry.stop());

  it("resolves a tag once, and reads how the image is started", async () => {
    const digest = await registry.push("tools/app", "1.0", image);
    const found = await lookUp(`${registry.host}/tools/app:1.0`);
    expect(found).toMatchObject({
      name: `${registry.host}/tools/app:1.0`,
      reference: `${registry.host}/tools/app@${digest}`,
      config,
    });
    await registry.push("tools/app", "1.0", { Cmd: ["other"] });
    expect((await lookUp(`${registry.host}/tools/app:1.0`)).config.cmd).toEqual(["other"]);
    expect(await lookUp(found.reference)).toMatchObject({ reference: found.reference, config });
  });

  it("chooses the manifest of the requested architecture, else of the preferred one", async () => {
    const own = await registry.push("tools/many", "own", image);
    const other = await registry.push("tools/many", "other", { Cmd: ["other"] }, { architecture: otherArchitecture });
    await registry.pushIndex("tools/many", "1", [
      { digest: other, architecture: otherArchitecture },
      { digest: own, architecture: ownArchitecture },
    ]);
    const name = `${registry.host}/tools/many:1`;
    expect((await lookUp(name)).reference).toContain(own);
    expect((await lookUp(name, { architecture: otherArchitecture })).reference).toContain(other);
    expect((await lookUp(name, { preferred: "s390x" })).reference).toContain(other);
    await expect(lookUp(name, { architecture: "s390x" })).rejects.toMatchObject({
      code: "NeedNotMet",
      message: expect.stringContaining(
        `the image is for linux/${otherArchitecture}, linux/${ownArchitecture}`,
      ) as string,
    });
    const single = `${registry.host}/tools/many:other`;
    await expect(lookUp(single, { architecture: ownArchitecture })).rejects.toMatchObject({ code: "NeedNotMet" });
  });

  it("repeats the registry's words for an image that does not exist, or whose digest is gone", async () => {
    await expect(lookUp(`${registry.host}/tools/none:1`)).rejects.toMatchObject({
      code: "ImageNotFound",
      message: expect.stringMatching(
        /Reading the image .*\/tools\/none:1 from .* failed: it responded with status 404: (MANIFEST|NAME)_UNKNOWN/,
      ) as string,
    });
    const digest = await registry.push("tools/gone", "1", image);
    const { reference } = await lookUp(`${registry.host}/tools/gone:1`);
    await registry.remove("tools/gone", digest);
    await expect(lookUp(reference)).rejects.toMatchObject({ code: "ImageNotFound" });
  });

  it("does not reach a registry at a loopback address by HTTP, or at all, unless it is named", async () => {
    const guarded = new RegistryTransport({});
    const unnamed = { transport: guarded, clock };
    const request = { name: `${registry.host}/tools/app:1.0`, preferred: ownArchitecture, keyring: [] };
    await expect(lookUpImage(request, unnamed)).rejects.toMatchObject({
      code: "Forbidden",
      hint: expect.stringContaining(`--private-registry ${registry.host}`) as string,
    });
    const named = `localhost:${registry.host.split(":")[1] ?? ""}`;
    await expect(lookUpImage({ ...request, name: `${named}/tools/app:1.0` }, unnamed)).rejects.toMatchObject({
      code: "Forbidden",
    });
    await guarded.close();
  });

  it("is unavailable while it is down, and works again afterwards", async () => {
    await registry.push("tools/back", "1", image);
    const name = `${registry.host}/tools/back:1`;
    await registry.kill();
    await expect(lookUp(name)).rejects.toMatchObject({ code: "Unavailable", retryable: true });
    await registry.restart();
    expect((await lookUp(name)).config).toMatchObject(config);
  });
});

describe("a registry that asks for a password", () => {
  let registry: TestRegistry;
  beforeAll(async () => {
    registry = await startRegistry({ auth: "basic" });
    transport = new RegistryTransport({ insecureRegistries: [registry.host] });
    await registry.push("private/app", "1", image);
  });
  afterAll(() => registry.stop());

  it("is read with the credentials for its host, of which the first valid ones count", async () => {
    const name = `${registry.host}/private/app:1`;
    await expect(lookUp(name)).rejects.toMatchObject({
      code: "Unauthorized",
      message: expect.stringContaining("it asks for credentials") as string,
      hint: expect.stringContaining("imagePullSecrets") as string,
    });
    const wrong = { username: "puller", password: "wrong" };
    await expect(lookUp(name, { keyring: [[registry.host, wrong]] })).rejects.toMatchObject({
      code: "Unauthorized",
      message: expect.stringContaining("it refuses the credentials") as string,
    });
    await expect(lookUp(name, { keyring: [["other.example", account]] })).rejects.toMatchObject({
      code: "Unauthorized",
    });
    const directory = await mkdtemp(join(tmpdir(), "ramet-docker-"));
    const auth = Buffer.from(`${account.username}:${account.password}`).toString("base64");
    await writeFile(join(directory, "config.json"), JSON.stringify({ auths: { [registry.host]: { auth } } }));
    const recording = { architecture: ownArchitecture, environment: { DOCKER_CONFIG: directory } };
    expect((await recordImage(name, recording)).config).toMatchObject(config);
    await rm(directory, { recursive: true });
    await expect(recordImage(name, recording)).rejects.toMatchObject({ code: "Unauthorized" });
    const keyring = [
      [`${registry.host}/private`, wrong],
      [registry.host, account],
    ] as const;
    expect((await lookUp(name, { keyring })).config).toMatchObject(config);
  });
});

describe("a registry with a token server", () => {
  let registry: TestRegistry;
  let tokens: TokenServer;
  let pushing = "";
  beforeAll(async () => {
    tokens = await startTokenServer();
    registry = await startRegistry({ auth: tokens.auth, authorization: () => tokens.authorization(pushing) });
    transport = new RegistryTransport({ insecureRegistries: [registry.host, tokens.host] });
    for (pushing of ["public/app", "private/app"]) await registry.push(pushing, "1", image);
  });
  afterAll(async () => {
    await registry.stop();
    await tokens.close();
  });

  it("gives anyone a token for a public repository, and the account one for a private repository", async () => {
    expect((await lookUp(`${registry.host}/public/app:1`)).config).toMatchObject(config);
    const name = `${registry.host}/private/app:1`;
    await expect(lookUp(name)).rejects.toMatchObject({ code: "Unauthorized" });
    expect((await lookUp(name, { keyring: [[registry.host, account]] })).config).toMatchObject(config);
    expect(tokens.asked.at(-1)).toEqual({ scope: "repository:private/app:pull", account: "puller" });
    const wrong = { username: "puller", password: "wrong" };
    await expect(lookUp(name, { keyring: [[registry.host, wrong]] })).rejects.toMatchObject({ code: "Unauthorized" });
  });

  it("is not asked for a token at an address that no administrator has named", async () => {
    const strict = new RegistryTransport({ insecureRegistries: [registry.host] });
    const request = { name: `${registry.host}/public/app:1`, preferred: ownArchitecture, keyring: [] };
    await expect(lookUpImage(request, { transport: strict, clock })).rejects.toMatchObject({ code: "Forbidden" });
    await strict.close();
  });
});
