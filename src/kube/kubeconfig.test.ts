import { chmod, mkdir, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { stringify } from "yaml";
import { ManualClock } from "../../test/setup/manual-clock.ts";
import { inClusterConnection } from "./connection.ts";
import { connectionFromKubeconfig, namespaceFromKubeconfig } from "./kubeconfig.ts";

let directory: string;

beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), "ramet-kubeconfig-"));
});
afterEach(() => rm(directory, { recursive: true }));

const base64 = (text: string) => Buffer.from(text).toString("base64");

async function kubeconfig(user: object, cluster: object = {}): Promise<string> {
  const path = join(directory, "config");
  const config = {
    apiVersion: "v1",
    kind: "Config",
    "current-context": "here",
    contexts: [
      { name: "here", context: { cluster: "c", user: "u", namespace: "team-a" } },
      { name: "there", context: { cluster: "c2", user: "u" } },
    ],
    clusters: [
      { name: "c", cluster: { server: "https://10.0.0.1:6443/", ...cluster } },
      { name: "c2", cluster: { server: "https://10.0.0.2:6443" } },
    ],
    users: [{ name: "u", user }],
  };
  await writeFile(path, stringify(config));
  return path;
}

describe("connectionFromKubeconfig", () => {
  it("reads inline data", async () => {
    const path = await kubeconfig(
      { "client-certificate-data": base64("CERT"), "client-key-data": base64("KEY") },
      { "certificate-authority-data": base64("CA"), "tls-server-name": "api" },
    );
    const connection = await connectionFromKubeconfig({ path });
    expect(connection).toMatchObject({
      server: "https://10.0.0.1:6443",
      namespace: "team-a",
      ca: "CA",
      tlsServerName: "api",
    });
    expect(await connection.credentials.current(false)).toEqual({ cert: "CERT", key: "KEY" });
  });

  it("merges several files: the first entry of each name is used, and paths are relative to their own file", async () => {
    await mkdir(join(directory, "other"));
    await writeFile(join(directory, "other", "ca.crt"), "CA");
    const first = join(directory, "first");
    const other = join(directory, "other", "config");
    const server = "https://10.0.0.9:6443";
    await writeFile(first, stringify({ clusters: [{ name: "c", cluster: { server } }], "current-context": "" }));
    const clusters = [
      { name: "c", cluster: { server: "https://10.0.0.1:6443" } },
      { name: "d", cluster: { server: "https://10.0.0.2:6443", "certificate-authority": "ca.crt" } },
    ];
    const contexts = [{ name: "here", context: { cluster: "c", namespace: "team-a" } }];
    await writeFile(other, stringify({ clusters, contexts, "current-context": "here" }));
    const path = [first, other];
    expect(await connectionFromKubeconfig({ path })).toMatchObject({ server, namespace: "team-a" });
    const connection = await connectionFromKubeconfig({ path, cluster: "d" });
    expect(connection).toMatchObject({ server: "https://10.0.0.2:6443", ca: "CA", namespace: "team-a" });
  });

  it("reads a text like a file", async () => {
    const text = await readFile(await kubeconfig({ token: "t" }), "utf8");
    expect(await connectionFromKubeconfig({ text, context: "there" })).toMatchObject({
      server: "https://10.0.0.2:6443",
    });
    expect(await namespaceFromKubeconfig({ text })).toBe("team-a");
    expect(await namespaceFromKubeconfig({ text, context: "there" })).toBeUndefined();
  });

  it("reads files, relative to the kubeconfig", async () => {
    await writeFile(join(directory, "ca.crt"), "CA");
    await writeFile(join(directory, "me.crt"), "CERT");
    await writeFile(join(directory, "me.key"), "KEY");
    const path = await kubeconfig(
      { "client-certificate": "me.crt", "client-key": join(directory, "me.key") },
      { "certificate-authority": "./ca.crt" },
    );
    const connection = await connectionFromKubeconfig({ path });
    expect(connection.ca).toBe("CA");
    expect(await connection.credentials.current(false)).toEqual({ cert: "CERT", key: "KEY" });
  });

  it("uses another context", async () => {
    const connection = await connectionFromKubeconfig({ path: await kubeconfig({ token: "t" }), context: "there" });
    expect(connection).toMatchObject({ server: "https://10.0.0.2:6443", namespace: "default" });
    expect(await connection.credentials.current(false)).toEqual({ token: "t" });
  });

  it("reads a token file again after a minute or when the token was rejected", async () => {
    const clock = new ManualClock();
    await writeFile(join(directory, "token"), "one\n");
    const { credentials } = await connectionFromKubeconfig({ path: await kubeconfig({ tokenFile: "token" }), clock });
    expect(await credentials.current(false)).toEqual({ token: "one" });
    await writeFile(join(directory, "token"), "two\n");
    expect(await credentials.current(false)).toEqual({ token: "one" });
    expect(await credentials.current(true)).toEqual({ token: "two" });
    await writeFile(join(directory, "token"), "three\n");
    clock.advance(60_001);
    expect(await credentials.current(false)).toEqual({ token: "three" });
  });

  it("runs an exec plugin once until its credential expires or is rejected", async () => {
    const plugin = join(directory, "plugin");
    await writeFile(
      plugin,
      `#!/bin/sh
echo run >> ${directory}/runs
test -n "$KUBERNETES_EXEC_INFO" || exit 1
echo '{"kind":"ExecCredential","apiVersion":"client.authentication.k8s.io/v1","status":{"token":"'$WHO-$1'","expirationTimestamp":"2999-01-01T00:00:00Z"}}'
`,
    );
    await chmod(plugin, 0o755);
    const exec = {
      apiVersion: "client.authentication.k8s.io/v1",
      command: "./plugin",
      args: ["me"],
      env: [{ name: "WHO", value: "its" }],
    };
    const { credentials } = await connectionFromKubeconfig({ path: await kubeconfig({ exec }) });
    expect(await credentials.current(false)).toEqual({ token: "its-me" });
    expect(await credentials.current(false)).toEqual({ token: "its-me" });
    expect(await runs()).toBe(1);
    await credentials.current(true);
    expect(await runs()).toBe(2);
  });

  async function runs(): Promise<number> {
    const { readFile } = await import("node:fs/promises");
    return (await readFile(join(directory, "runs"), "utf8")).trim().split("\n").length;
  }

  it("reports the stderr of an exec plugin that fails", async () => {
    const exec = {
      apiVersion: "client.authentication.k8s.io/v1",
      command: "sh",
      args: ["-c", "echo log in first >&2; exit 1"],
    };
    const { credentials } = await connectionFromKubeconfig({ path: await kubeconfig({ exec }) });
    await expect(credentials.current(false)).rejects.toMatchObject({
      code: "Unauthorized",
      message: "The credential program sh failed: log in first",
    });
  });

  it("reads the impersonation fields", async () => {
    const user = {
      token: "t",
      as: "jane",
      "as-groups": ["dev", "ops"],
      "as-uid": "7",
      "as-user-extra": { "example.com/Team": ["a"] },
    };
    expect((await connectionFromKubeconfig({ path: await kubeconfig(user) })).impersonate).toEqual({
      user: "jane",
      groups: ["dev", "ops"],
      uid: "7",
      extra: { "example.com/Team": ["a"] },
    });
    const path = await kubeconfig({ token: "t", "as-groups": ["dev"] });
    await expect(connectionFromKubeconfig({ path })).rejects.toMatchObject({
      code: "InvalidArgument",
      message: expect.stringContaining("without as") as string,
    });
  });

  it("combines a client certificate with a token file", async () => {
    await writeFile(join(directory, "token"), "t");
    const user = { tokenFile: "token", "client-certificate-data": base64("CERT"), "client-key-data": base64("KEY") };
    const { credentials } = await connectionFromKubeconfig({ path: await kubeconfig(user) });
    expect(await credentials.current(false)).toEqual({ token: "t", cert: "CERT", key: "KEY" });
  });

  it("passes the cluster to an exec plugin that asks for it", async () => {
    const exec = {
      apiVersion: "client.authentication.k8s.io/v1",
      command: process.execPath,
      args: [
        "-e",
        `const { spec } = JSON.parse(process.env.KUBERNETES_EXEC_INFO);
         console.log(JSON.stringify({ status: { token: JSON.stringify(spec.cluster) } }));`,
      ],
      provideClusterInfo: true,
    };
    const cluster = {
      "certificate-authority-data": base64("CA"),
      extensions: [{ name: "client.authentication.k8s.io/exec", extension: { audience: "x" } }],
    };
    const { credentials } = await connectionFromKubeconfig({ path: await kubeconfig({ exec }, cluster) });
    const { token } = await credentials.current(false);
    expect(JSON.parse(token ?? "")).toEqual({
      server: "https://10.0.0.1:6443/",
      "certificate-authority-data": base64("CA"),
      config: { audience: "x" },
    });
  });

  it.each([
    ["username", { username: "u", password: "p" }, {}],
    ["auth-provider", { "auth-provider": { name: "gcp" } }, {}],
    ["interactiveMode", { exec: { apiVersion: "v1", command: "x", interactiveMode: "Always" } }, {}],
    ["proxy-url", { token: "t" }, { "proxy-url": "socks5://127.0.0.1:1080" }],
  ])("rejects the unsupported field %s", async (field, user, cluster) => {
    await expect(connectionFromKubeconfig({ path: await kubeconfig(user, cluster) })).rejects.toMatchObject({
      code: "InvalidArgument",
      message: expect.stringContaining(field) as string,
    });
  });

  it("reports missing and invalid entries", async () => {
    await expect(connectionFromKubeconfig({ path: join(directory, "none") })).rejects.toMatchObject({
      code: "NotFound",
    });
    const path = await kubeconfig({ username: "u", password: "p" });
    await expect(connectionFromKubeconfig({ path })).rejects.toMatchObject({ code: "InvalidArgument" });
    await expect(connectionFromKubeconfig({ path, context: "nowhere" })).rejects.toMatchObject({
      message: expect.stringContaining('no context named "nowhere"') as string,
      hint: "Choose one of: here, there",
    });
    await writeFile(path, "clusters: 7");
    await expect(connectionFromKubeconfig({ path })).rejects.toMatchObject({
      code: "InvalidArgument",
      message: expect.stringContaining("clusters") as string,
    });
  });
});

describe("inClusterConnection", () => {
  it("reads the service account", async () => {
    await writeFile(join(directory, "ca.crt"), "CA");
    await writeFile(join(directory, "token"), "t");
    await writeFile(join(directory, "namespace"), "ramet-system\n");
    const connection = await inClusterConnection({
      environment: { KUBERNETES_SERVICE_HOST: "fd00::1", KUBERNETES_SERVICE_PORT: "6443" },
      clock: new ManualClock(),
      directory: directory,
    });
    expect(connection).toMatchObject({ server: "https://[fd00::1]:6443", ca: "CA", namespace: "ramet-system" });
    expect(await connection.credentials.current(false)).toEqual({ token: "t" });
  });

  it("reports what to do outside a cluster", async () => {
    await expect(inClusterConnection({ environment: {}, clock: new ManualClock() })).rejects.toMatchObject({
      code: "InvalidArgument",
      hint: expect.stringContaining("--kubeconfig") as string,
    });
  });
});
