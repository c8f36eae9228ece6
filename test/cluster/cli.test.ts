import { spawn, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { Sandbox, sandboxKind } from "../../src/api/kinds/sandbox.ts";
import { refOf } from "../../src/cli/cluster/cluster.ts";
import { memoryIo } from "../setup/memory-io.ts";
import { runProgram } from "../../src/cli/program.ts";
import { KubeClient } from "../../src/kube/kube-client.ts";
import { connectionFromKubeconfig } from "../../src/kube/kubeconfig.ts";
import { builtPrograms } from "../setup/built-package.ts";
import { serviceAccounts, tokenOf } from "../setup/service-accounts.ts";

interface Outcome {
  exitCode: number | null;
  stdout: string;
  stderr: string;
}

let home: string;
let client: KubeClient;

/** Runs the real program as a process, on its own cluster. */
async function ramet(
  args: readonly string[],
  input = "",
  onFirstOutput: (child: ChildProcess) => void = () => undefined,
): Promise<Outcome> {
  const [program, main] = builtPrograms.ramet;
  const child = spawn(program, [main, ...args], {
    env: { PATH: process.env["PATH"], HOME: home, XDG_DATA_HOME: home, ...cachesOf(process.env) },
  });
  const outcome: Outcome = { exitCode: null, stdout: "", stderr: "" };
  child.stdout.on("data", (chunk: Buffer) => (outcome.stdout += chunk.toString()));
  child.stdout.once("data", () => {
    onFirstOutput(child);
  });
  child.stderr.on("data", (chunk: Buffer) => (outcome.stderr += chunk.toString()));
  child.stdin.on("error", () => undefined).end(input);
  await once(child, "close");
  return { ...outcome, exitCode: child.exitCode };
}

/** Shares the machine's tools and images and the run's compile cache; everything else belongs to the test. */
function cachesOf({ XDG_CACHE_HOME, HOME = "", NODE_COMPILE_CACHE }: NodeJS.ProcessEnv): NodeJS.ProcessEnv {
  return { XDG_CACHE_HOME: XDG_CACHE_HOME ?? join(HOME, ".cache"), NODE_COMPILE_CACHE };
}

/** Runs the same command in this process, with in-memory streams. */
function inProcess(args: string[], options: Parameters<typeof memoryIo>[0] = {}) {
  const io = memoryIo({ ...options, environment: { HOME: home, XDG_DATA_HOME: home } });
  const ended = runProgram(io, args).then((exitCode) => ({
    exitCode,
    stdout: io.written("stdout"),
    stderr: io.written("stderr"),
  }));
  return { io, ended };
}

async function exec(sandbox: string, ...command: string[]): Promise<string> {
  const { exitCode, stdout, stderr } = await ramet(["sandbox", "exec", sandbox, "--", ...command]);
  expect(stderr).toBe("");
  expect(exitCode).toBe(0);
  return stdout.trim();
}

beforeAll(async () => {
  home = await mkdtemp(join(tmpdir(), "ramet-cli-"));
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
    expect(await ramet(["sandbox", "create", "--from", id, "--name", "b"])).toMatchObject({
      exitCode: 0,
      stdout: "b\n",
    });
    expect(await exec("b", "sh", "-c", "cat /my-file /dev/shm/a; hostname")).toBe("kept\nkept\nb");
    await exec("a", "sh", "-c", "echo changed > /my-file");
    expect(await exec("b", "cat", "/my-file")).toBe("kept");

    const list = await ramet(["sandbox", "ls"]);
    expect(list.stdout).toMatch(
      /^NAME +STATUS +AGE +FROM +MESSAGE\na +Running +\d+[sm]\S* +ramet-python\nb +Running +\d+[sm]\S* +/,
    );
    const checkpoints = await ramet(["checkpoint", "ls"]);
    expect(checkpoints.stdout).toMatch(new RegExp(`first +Succeeded +${id} +a +memory,filesystem`));
    const byId = await ramet(["checkpoint", "get", id, "-o", "json"]);
    expect(JSON.parse(byId.stdout)).toMatchObject({ kind: "Checkpoint", metadata: { name: "first" } });

    expect(await ramet(["checkpoint", "rm", id])).toMatchObject({ exitCode: 0, stdout: "checkpoint first removed\n" });
    expect(await exec("b", "cat", "/my-file")).toBe("kept");
    expect(await ramet(["sandbox", "rm", "b"])).toMatchObject({ exitCode: 0, stdout: "sandbox b removed\n" });
    expect((await ramet(["sandbox", "get", "b"])).exitCode).toBe(3);
    expect((await ramet(["sandbox", "rm", "b", "--ignore-not-found"])).exitCode).toBe(0);
  });

  it("pauses and resumes a sandbox", async () => {
    await ramet(["sandbox", "create", "--template", "python", "--name", "p", "--env", "GREETING=hello"]);
    await exec("p", "sh", "-c", "echo kept > /dev/shm/a");
    expect(await ramet(["sandbox", "pause", "p"])).toMatchObject({ exitCode: 0, stdout: "sandbox p paused\n" });
    const refused = await ramet(["sandbox", "exec", "p", "--", "true"]);
    expect(refused).toMatchObject({ exitCode: 1 });
    expect(refused.stderr).toContain("it is Paused");
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
    const script = "stty size; trap 'stty size; exit 5' WINCH; while :; do sleep 0.05; done";
    const { io, ended } = inProcess(["sandbox", "exec", "-it", "a", "--", "sh", "-c", script], { terminal });
    await expect.poll(() => io.written("stdout")).toContain("31 91");
    size = { columns: 120, rows: 40 };
    resized();
    expect(await ended).toMatchObject({ exitCode: 5, stdout: expect.stringContaining("40 120") as string });
    expect(raw).toEqual([true, false]);
  });

  it("copies files in and out, but no directories", async () => {
    const here = join(home, "here.txt");
    await writeFile(here, "copied");
    expect((await ramet(["sandbox", "cp", here, "a:/tmp/deep/"])).exitCode).toBe(0);
    expect((await ramet(["sandbox", "cp", "a:/tmp/deep/here.txt", join(home, "back.txt")])).exitCode).toBe(0);
    expect(await readFile(join(home, "back.txt"), "utf8")).toBe("copied");
    expect((await ramet(["sandbox", "cp", "-", "a:/tmp/in"], "piped")).exitCode).toBe(0);
    expect((await ramet(["sandbox", "cp", "a:/tmp/in", "-"])).stdout).toBe("piped");
    expect((await ramet(["sandbox", "cp", "a:/tmp", home])).exitCode).toBe(2);
    expect((await ramet(["sandbox", "cp", "a:/missing", home])).exitCode).toBe(3);
  });

  it("rejects a caller that cannot read the cell key", async () => {
    const token = await limitedToken();
    const kubeconfig = join(home, "limited");
    const admin = await readFile(join(home, "ramet/default/kubeconfig"), "utf8");
    await writeFile(kubeconfig, limitedKubeconfig(admin, token));
    const refused = await ramet(["sandbox", "exec", "--kubeconfig", kubeconfig, "a", "--", "true"]);
    expect(refused.exitCode).toBe(1);
    expect(refused.stderr).toContain("Cannot enter the sandbox");
    expect(refused.stderr).toContain("Secret ramet-cell-key");
    expect(refused.stderr).toContain("[Forbidden]");
  });
});

describe("waiting", () => {
  it("exits after the timeout with the reason, and keeps the request", async () => {
    const outcome = await ramet("sandbox create --template missing --name t --timeout 1s".split(" "));
    expect(outcome.exitCode).toBe(4);
    expect(outcome.stdout).toBe("");
    expect(outcome.stderr).toContain("The SandboxTemplate missing does not exist");
    expect(outcome.stderr).toContain("The request stays");
    expect((await ramet(["sandbox", "get", "t", "-o", "name"])).stdout).toBe("t\n");
    await ramet(["sandbox", "rm", "t"]);
  });

  it("exits with 130 after Ctrl-C, prints progress on a terminal, and keeps the request", async () => {
    const args = "sandbox create --template missing --name i --timeout 0".split(" ");
    const { io, ended } = inProcess(args, { progressIsSeen: true });
    await expect.poll(() => io.written("stderr")).toContain("s  sandbox i: Pending: The Sandbox");
    io.interrupt();
    expect(await ended).toMatchObject({ exitCode: 130, stdout: "" });
    expect(io.written("stderr")).toContain("The request stays");
    expect((await ramet(["sandbox", "rm", "i"])).exitCode).toBe(0);
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
    const { io, ended } = inProcess("sandbox create --template missing --name g --timeout 0".split(" "), {
      progressIsSeen: true,
    });
    await expect.poll(() => io.written("stderr")).toContain("sandbox g:");
    const sandboxes = client.resource(refOf(sandboxKind), (value) => Sandbox.parse(value));
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

/** The token of an account that can read and create sandboxes but not Secrets. */
async function limitedToken(): Promise<string> {
  const rbac = { group: "rbac.authorization.k8s.io", version: "v1", namespaced: false };
  const roles = client.resource({ ...rbac, plural: "clusterroles", kind: "ClusterRole" });
  const bindings = client.resource({ ...rbac, plural: "clusterrolebindings", kind: "ClusterRoleBinding" });
  const metadata = { name: "limited", namespace: "default" };
  await client.resource(serviceAccounts).create({ apiVersion: "v1", kind: "ServiceAccount", metadata });
  await roles.create({
    apiVersion: "rbac.authorization.k8s.io/v1",
    kind: "ClusterRole",
    metadata: { name: "limited" },
    rules: [{ apiGroups: ["agents.kruise.io"], resources: ["*"], verbs: ["*"] }],
  });
  await bindings.create({
    apiVersion: "rbac.authorization.k8s.io/v1",
    kind: "ClusterRoleBinding",
    metadata: { name: "limited" },
    roleRef: { apiGroup: "rbac.authorization.k8s.io", kind: "ClusterRole", name: "limited" },
    subjects: [{ kind: "ServiceAccount", ...metadata }],
  });
  return tokenOf(client, metadata);
}

function limitedKubeconfig(admin: string, token: string): string {
  return admin
    .replace(/^( *)client-certificate-data:.*$/m, `$1token: ${token}`)
    .replace(/^ *client-key-data:.*\n/m, "");
}
