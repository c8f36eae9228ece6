import { randomBytes } from "node:crypto";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { sandboxKind } from "../../src/api/kinds/sandbox.ts";
import { hasEnded } from "../../src/api/state/sandbox.ts";
import { refOf } from "../../src/kube/resource-ref.ts";
import { KubeClient } from "../../src/kube/kube-client.ts";
import { connectionFromKubeconfig } from "../../src/kube/kubeconfig.ts";
import { accountToken, allowToReach } from "../setup/gateway.ts";
import { tokenOf, writeKubeconfig } from "../setup/service-accounts.ts";
import { CliHome } from "./cli-home.ts";

let home: string;
let cli: CliHome;
let client: KubeClient;
const ramet = (...call: Parameters<CliHome["ramet"]>) => cli.ramet(...call);
const exec = (...call: Parameters<CliHome["exec"]>) => cli.exec(...call);
const inProcess = (...call: Parameters<CliHome["inProcess"]>) => cli.inProcess(...call);

beforeAll(async () => {
  home = await mkdtemp(join(tmpdir(), "ramet-cli-"));
  cli = new CliHome(home);
  const up = await ramet(["local", "up"]);
  expect(up.exitCode, up.stderr).toBe(0);
  const path = up.stdout.replace("export KUBECONFIG=", "").trim();
  client = new KubeClient(await connectionFromKubeconfig({ path }));
  const made = await ramet(["sandbox", "create", "--template", "python", "--name", "a"]);
  expect(made, made.stderr).toMatchObject({ exitCode: 0, stdout: "a\n" });
});

afterAll(async () => {
  await client.close();
  const down = await ramet(["local", "down", "--purge"]);
  expect(down.exitCode, down.stderr).toBe(0);
  await rm(home, { recursive: true, force: true });
});

describe("checkpoint, clone, pause and resume", () => {
  it("captures a sandbox and clones it with its memory and files", async () => {
    expect(await exec("a", "python3", "-c", "print(1)")).toBe("1");
    // /dev/shm is memory: only a checkpoint with memory contains it.
    await exec("a", "sh", "-c", "echo kept > /my-file; echo kept > /dev/shm/a");
    const { exitCode, stdout } = await ramet([
      ..."checkpoint create a --contents memory,filesystem --wait --name first".split(" "),
    ]);
    expect(exitCode).toBe(0);
    const id = stdout.trim();
    expect(id).not.toContain("\n");
    expect(await ramet(["checkpoint", "wait", "first"])).toMatchObject({ exitCode: 0, stdout });
    const begun = await ramet(["checkpoint", "create", "a", "--name", "second", "--no-wait"]);
    expect(begun.stdout).toMatch(/^second-[0-9a-f]{12}\n$/);
    expect(begun.stderr).toBe("Wait until it can be cloned with: ramet checkpoint wait second -n default\n");
    expect(await ramet(["checkpoint", "wait", "second"])).toMatchObject({ exitCode: 0, stdout: begun.stdout });
    expect((await ramet(["checkpoint", "rm", "second"])).exitCode).toBe(0);
    expect(await ramet(["sandbox", "create", "--from", id, "--name", "b"])).toMatchObject({
      exitCode: 0,
      stdout: "b\n",
    });
    expect(await exec("b", "sh", "-c", "cat /my-file /dev/shm/a; hostname")).toBe("kept\nkept\nb");
    await exec("a", "sh", "-c", "echo changed > /my-file");
    expect(await exec("b", "cat", "/my-file")).toBe("kept");

    const list = await ramet(["sandbox", "ls"]);
    expect(list.stdout).toMatch(
      /^NAME +STATUS +AGE +DISK +FROM +MESSAGE\na +Running +\d+[sm]\S* +10GiB +ramet-python\nb +Running +\d+[sm]\S* +10GiB +/,
    );
    const checkpoints = await ramet(["checkpoint", "ls"]);
    expect(checkpoints.stdout).toMatch(new RegExp(`first +Succeeded +${id} +a +memory,filesystem`));
    const byId = await ramet(["checkpoint", "get", id, "-o", "json"]);
    expect(JSON.parse(byId.stdout)).toMatchObject({ kind: "Checkpoint", metadata: { name: "first" } });

    const explained = await ramet(["explain", "checkpoint/first"]);
    expect(explained.stdout).toMatch(/It can be cloned \(source paused for \d+ ms, data stored in [\d.]+ m?s\)/);

    expect(await ramet(["checkpoint", "rm", id])).toMatchObject({ exitCode: 0, stdout: "checkpoint first removed\n" });
    expect(await exec("b", "cat", "/my-file")).toBe("kept");
    expect(await ramet(["sandbox", "rm", "b"])).toMatchObject({ exitCode: 0, stdout: "sandbox b removed\n" });
    expect((await ramet(["sandbox", "get", "b"])).exitCode).toBe(3);
    expect((await ramet(["sandbox", "rm", "b", "--ignore-not-found"])).exitCode).toBe(0);
  });

  it("captures a sandbox that is still starting, and refuses one that has ended without a Checkpoint", async () => {
    expect((await ramet(["sandbox", "create", "--template", "python", "--name", "new", "--no-wait"])).exitCode).toBe(0);
    const begun = await ramet(["checkpoint", "create", "new", "--name", "of-new", "--no-wait"]);
    expect(begun, begun.stderr).toMatchObject({ exitCode: 0 });
    expect(await ramet(["checkpoint", "wait", "of-new"])).toMatchObject({ exitCode: 0, stdout: begun.stdout });

    const sandboxes = client.of(sandboxKind);
    const template = { spec: { containers: [{ name: "main", image: "python", command: ["true"] }] } };
    const metadata = { name: "ended", namespace: "default" };
    await sandboxes.create({ apiVersion: "agents.kruise.io/v1alpha1", kind: "Sandbox", metadata, spec: { template } });
    await expect.poll(async () => hasEnded(await sandboxes.get(metadata)), { timeout: 30_000 }).toBe(true);
    const refused = await ramet(["checkpoint", "create", "ended", "--name", "of-ended", "--no-wait"]);
    expect(refused).toMatchObject({ exitCode: 1, stdout: "" });
    expect(refused.stderr).toContain("The sandbox ended cannot be captured");
    expect((await ramet(["checkpoint", "get", "of-ended"])).exitCode).toBe(3);
    await ramet(["sandbox", "rm", "new", "ended"]);
    expect((await ramet(["checkpoint", "rm", "of-new"])).exitCode).toBe(0);
  });

  it("pauses and resumes a sandbox", async () => {
    await ramet(["sandbox", "create", "--template", "python", "--name", "p", "--env", "GREETING=hello"]);
    await exec("p", "sh", "-c", "echo kept > /dev/shm/a");
    expect(await ramet(["sandbox", "pause", "p"])).toMatchObject({ exitCode: 0, stdout: "sandbox p paused\n" });
    const refused = await ramet(["sandbox", "exec", "p", "--", "true"]);
    expect(refused).toMatchObject({ exitCode: 1 });
    expect(refused.stderr).toContain("it is Paused");
    expect(refused.stderr).toContain("Resume it with: ramet sandbox resume");
    expect(await ramet(["sandbox", "resume", "p"])).toMatchObject({ exitCode: 0 });
    expect(await exec("p", "sh", "-c", "cat /dev/shm/a; echo $GREETING")).toBe("kept\nhello");
    await ramet(["sandbox", "rm", "p"]);
  });
});

describe("ramet sandbox exec", () => {
  it("separates stdout and stderr and exits with the command's code", async () => {
    const outcome = await ramet(["sandbox", "exec", "a", "--", "sh", "-c", "echo out; echo err >&2; exit 7"]);
    expect(outcome).toEqual({ exitCode: 7, stdout: "out\n", stderr: "err\n" });
    expect((await ramet(["sandbox", "exec", "a", "--", "sh", "-c", "kill -9 $$"])).exitCode).toBe(137);
    expect((await ramet(["sandbox", "exec", "a", "--", "missing"])).exitCode).toBe(127);
    expect((await ramet(["sandbox", "exec", "missing", "--", "true"])).exitCode).toBe(3);
  });

  it("passes stdin to the command with -i, and end-of-file without it", async () => {
    const input = "x".repeat(300_000);
    expect((await ramet(["sandbox", "exec", "-i", "a", "--", "wc", "-c"], input)).stdout.trim()).toBe("300000");
    expect((await ramet(["sandbox", "exec", "a", "--", "wc", "-c"], input)).stdout.trim()).toBe("0");
  });

  it("runs the command with a working directory, a user and variables", async () => {
    const args = ["sandbox", "exec", "-e", "A=1 2", "--cwd", "/tmp", "-u", "nobody", "a", "--"];
    const { stdout } = await ramet([...args, "sh", "-c", 'echo "$A"; pwd; id -un']);
    expect(stdout).toBe("1 2\n/tmp\nnobody\n");
  });

  it("runs the command as the container's user, also if the image has the user that SDKs expect", async () => {
    expect(await exec("a", "id", "-un", "user")).toBe("user");
    expect(await exec("a", "id", "-un")).toBe("root");
    expect((await ramet("sandbox exec --direct a -- id -un".split(" "))).stdout).toBe("root\n");
  });

  it("forwards a signal and exits with the command's code", async () => {
    const script = 'trap "echo bye; exit 9" TERM; echo ready; while :; do sleep 0.05; done';
    const outcome = await ramet(["sandbox", "exec", "a", "--", "sh", "-c", script], "", (child) => {
      child.kill("SIGINT");
    });
    expect(outcome).toMatchObject({ exitCode: 9, stdout: "ready\nbye\n" });
  });

  it("allocates a terminal of the caller's size and resizes it", async () => {
    let size = { columns: 91, rows: 31 };
    let resized: () => void = () => undefined;
    const raw: boolean[] = [];
    const terminal = {
      size: () => size,
      onResize: (listener: () => void) => {
        resized = listener;
        return () => undefined;
      },
      setRaw: (on: boolean) => raw.push(on),
    };
    const script = "trap 'stty size; exit 5' WINCH; stty size; while :; do sleep 0.05; done";
    const { io, ended } = inProcess(["sandbox", "exec", "-it", "a", "--", "sh", "-c", script], { terminal });
    await expect.poll(() => io.written("stdout")).toContain("31 91");
    size = { columns: 120, rows: 40 };
    resized();
    expect(await ended).toMatchObject({ exitCode: 5, stdout: expect.stringContaining("40 120") as string });
    expect(raw).toEqual([true, false]);
  });

  it("copies files and directories in and out", async () => {
    const here = join(home, "here.txt");
    await writeFile(here, "copied");
    expect((await ramet(["sandbox", "cp", here, "a:/tmp/deep/"])).exitCode).toBe(0);
    expect((await ramet(["sandbox", "cp", "a:/tmp/deep/here.txt", join(home, "back.txt")])).exitCode).toBe(0);
    expect(await readFile(join(home, "back.txt"), "utf8")).toBe("copied");
    expect((await ramet(["sandbox", "cp", "-", "a:/tmp/in"], "piped")).exitCode).toBe(0);
    expect((await ramet(["sandbox", "cp", "a:/tmp/in", "-"])).stdout).toBe("piped");
    expect((await ramet(["sandbox", "cp", "a:/tmp/deep", home])).exitCode).toBe(0);
    expect(await readFile(join(home, "deep", "here.txt"), "utf8")).toBe("copied");
    expect((await ramet(["sandbox", "cp", "a:/missing", home])).exitCode).toBe(3);
  });

  it("copies large files through the gateway without a change", async () => {
    const [large, back] = [join(home, "large"), join(home, "large-back")];
    await writeFile(large, randomBytes(48 * 1024 * 1024));
    expect(await ramet(["sandbox", "cp", large, "a:/tmp/large"])).toMatchObject({ exitCode: 0, stderr: "" });
    expect(await ramet(["sandbox", "cp", "a:/tmp/large", back])).toMatchObject({ exitCode: 0, stderr: "" });
    expect((await readFile(back)).equals(await readFile(large))).toBe(true);
    await exec("a", "rm", "/tmp/large");
  });

  it("connects to the Pod with --direct, and with nothing else", async () => {
    const direct = await ramet(["sandbox", "exec", "--direct", "a", "--", "echo", "direct"]);
    expect(direct).toEqual({ exitCode: 0, stdout: "direct\n", stderr: "" });
    const elsewhere = await ramet(["sandbox", "exec", "--gateway", "http://127.0.0.1:1", "a", "--", "true"]);
    expect(elsewhere).toMatchObject({ exitCode: 1, stdout: "" });
    expect(elsewhere.stderr).toContain("Cannot connect to the gateway http://127.0.0.1:1");
  });

  it("enters a sandbox whose name contains --", async () => {
    await ramet(["sandbox", "create", "--template", "python", "--name", "a--b"]);
    expect(await exec("a--b", "hostname")).toBe("a--b");
    await ramet(["sandbox", "rm", "a--b"]);
  });
});

describe("a user with only the verb create on sandboxes/exec in one namespace", () => {
  const runner = { namespace: "default", name: "runner" };
  let kubeconfig: string;
  let flags: string[];

  beforeAll(async () => {
    const forGateways = join(home, "gateway-token");
    await writeFile(forGateways, await accountToken(client, runner));
    await allowToReach(client, "default", runner, "exec");
    kubeconfig = await kubeconfigOf(await tokenOf(client, runner));
    flags = ["--kubeconfig", kubeconfig, "--token-file", forGateways];
  });

  it("runs commands and copies files", async () => {
    const command = ["sandbox", "exec", ...flags, "-i", "a", "--", "sh", "-c", "cat; id -u"];
    expect(await ramet(command, "in\n")).toEqual({ exitCode: 0, stdout: "in\n0\n", stderr: "" });
    expect((await ramet(["sandbox", "cp", ...flags, "-", "a:/tmp/of-runner"], "copied")).exitCode).toBe(0);
    expect((await ramet(["sandbox", "cp", ...flags, "a:/tmp/of-runner", "-"])).stdout).toBe("copied");
    const missing = await ramet(["sandbox", "exec", ...flags, "missing", "--", "true"]);
    expect(missing).toMatchObject({ exitCode: 3, stderr: expect.stringContaining("[NotFound]") as string });
  });

  it("prints and follows the log of a sandbox until it ends", async () => {
    const container = { name: "main", image: "python", command: ["sh", "-c", "echo hello; exec sleep infinity"] };
    const metadata = { namespace: "default", name: "talker" };
    const spec = { template: { spec: { containers: [container] } } };
    const sandboxes = client.resource(refOf(sandboxKind));
    await sandboxes.create({ apiVersion: "agents.kruise.io/v1alpha1", kind: "Sandbox", metadata, spec });
    const logs = (...args: string[]) => ["sandbox", "logs", ...flags, "talker", ...args];
    const answer = async () => (await ramet(logs("--tail", "1", "--since", "1h"))).stdout;
    await expect.poll(answer, { timeout: 30_000 }).toBe("hello\n");
    const ended = ramet(logs("-f"), "", () => void sandboxes.delete(metadata));
    expect(await ended).toMatchObject({ stdout: "hello\n" });
    expect(await ramet(["sandbox", "logs", ...flags, "-n", "other", "a"])).toMatchObject({
      exitCode: 1,
      stderr: expect.stringContaining("[Forbidden]") as string,
    });
  });

  it("is refused in other namespaces, for --direct, and without the verb", async () => {
    const refusal = async (...args: string[]) => {
      const { exitCode, stderr } = await ramet(["sandbox", "exec", ...args, "a", "--", "true"]);
      return `${exitCode} ${stderr}`;
    };
    expect(await refusal(...flags, "-n", "other")).toMatch(
      /^1 .*default:runner is not allowed to enter the sandbox a in other\nGrant the verb create on sandboxes\/exec.*\[Forbidden\]/s,
    );
    expect(await refusal("--kubeconfig", kubeconfig, "--direct")).toMatch(/^1 .*\[Forbidden\]/s);
    await accountToken(client, { namespace: "default", name: "none" });
    expect(await refusal("--as-service-account", "none")).toMatch(/^1 .*default:none is not allowed.*\[Forbidden\]/s);
  });

  it("needs a token of a service account for gateways", async () => {
    const own = ["sandbox", "exec", "--kubeconfig", kubeconfig, "a", "--", "true"];
    const refused = await ramet(own);
    expect(refused.exitCode).toBe(1);
    expect(refused.stderr).toMatch(
      /Ask for the verb create on serviceaccounts\/token with the name runner.*\[Forbidden\]/s,
    );
    // The administrator may request a token of every account.
    expect((await ramet(["sandbox", "exec", "--as-service-account", "runner", "a", "--", "true"])).exitCode).toBe(0);
    await allowTokens(runner);
    await expect.poll(async () => (await ramet(own)).exitCode).toBe(0);
  });
});

describe("waiting", () => {
  it("exits after the timeout with the reason, and keeps the request", async () => {
    const outcome = await ramet("sandbox create --image missing:1 --name t --timeout 3s".split(" "));
    expect(outcome.exitCode).toBe(4);
    expect(outcome.stdout).toBe("");
    expect(outcome.stderr).toContain("missing:1");
    expect(outcome.stderr).toContain("The request stays");
    expect(outcome.stderr).toContain("remove it with: ramet sandbox rm t -n default\n");
    expect((await ramet(["sandbox", "get", "t", "-o", "name"])).stdout).toBe("t\n");
    await ramet(["sandbox", "rm", "t"]);
  });

  it("exits with 130 after Ctrl-C, prints progress on a terminal, and keeps the request", async () => {
    const args = "sandbox create --image missing:1 --name i --timeout 0".split(" ");
    const { io, ended } = inProcess(args, { progressIsSeen: true });
    await expect
      .poll(() => io.written("stderr"))
      .toContain("s  sandbox i: Pending: An image of the Pod i cannot be pulled");
    io.interrupt();
    expect(await ended).toMatchObject({ exitCode: 130, stdout: "" });
    expect(io.written("stderr")).toContain("The request stays");
    expect((await ramet(["sandbox", "rm", "i"])).exitCode).toBe(0);
  });

  it("exits with 130 and no error after Ctrl-C before anything was requested", async () => {
    const { io, ended } = inProcess("sandbox ls".split(" "));
    io.interrupt();
    expect(await ended).toMatchObject({ exitCode: 130, stdout: "", stderr: "" });
  });

  it("exits with 1 and the controller's reason when the sandbox fails", async () => {
    const outcome = await ramet("sandbox create --from missing --name f -o json".split(" "));
    expect(outcome.exitCode).toBe(1);
    expect(JSON.parse(outcome.stderr)).toMatchObject({
      error: { code: "NotFound", message: expect.stringContaining("missing") as string },
    });
    await ramet(["sandbox", "rm", "f"]);
  });

  it("exits with 1 when the awaited object is deleted", async () => {
    const { io, ended } = inProcess("sandbox create --image missing:1 --name g --timeout 0".split(" "), {
      progressIsSeen: true,
    });
    await expect.poll(() => io.written("stderr")).toContain("sandbox g:");
    const sandboxes = client.of(sandboxKind);
    await expect.poll(() => sandboxes.find({ namespace: "default", name: "g" })).toBeDefined();
    await sandboxes.delete({ namespace: "default", name: "g" });
    expect((await ended).exitCode).toBe(1);
    expect(io.written("stderr")).toContain("was deleted during the wait");
  });

  it("reports that a name is taken", async () => {
    const outcome = await ramet("sandbox create --template python --name a".split(" "));
    expect(outcome).toMatchObject({
      exitCode: 1,
      stderr: expect.stringContaining("The sandbox a already exists") as string,
    });
  });
});

/** Allows a service account to request its own tokens. */
async function allowTokens({ namespace, name }: { namespace: string; name: string }): Promise<void> {
  const apiGroup = "rbac.authorization.k8s.io";
  const apiVersion = `${apiGroup}/v1`;
  const metadata = { namespace, name: `${name}-tokens` };
  const rules = [{ apiGroups: [""], resources: ["serviceaccounts/token"], resourceNames: [name], verbs: ["create"] }];
  const subjects = [{ kind: "ServiceAccount", namespace, name }];
  const roleRef = { apiGroup, kind: "Role", name: metadata.name };
  const resource = (plural: string, kind: string) =>
    client.resource({ group: apiGroup, version: "v1", plural, kind, namespaced: true });
  await resource("roles", "Role").create({ apiVersion, kind: "Role", metadata, rules });
  await resource("rolebindings", "RoleBinding").create({
    apiVersion,
    kind: "RoleBinding",
    metadata,
    roleRef,
    subjects,
  });
}

/** Writes the cluster's kubeconfig with another user. */
async function kubeconfigOf(token: string): Promise<string> {
  const path = join(home, "limited");
  await writeKubeconfig(path, { like: join(home, "ramet/default/kubeconfig"), user: { token } });
  return path;
}
