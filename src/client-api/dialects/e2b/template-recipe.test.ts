import { expect, it } from "vitest";
import { Recipe } from "../../../api/recipe/recipe.ts";
import { readyCondition, templateRecipe } from "./template-recipe.ts";
import { StartBuild } from "./schemas.ts";

const translate = (build: object, id = "id") => templateRecipe(StartBuild.parse(build), id);
const steps = (...all: [type: string, ...args: string[]][]) =>
  translate({ steps: all.map(([type, ...args]) => ({ type, args, filesHash: "f".repeat(64) })) }).recipe;

it("translates each step, and says to which step of the client each step of the recipe belongs", () => {
  const { recipe, origins } = translate({
    steps: [
      { type: "RUN", args: ["apt-get update", "root"] },
      { type: "ENV", args: ["A", "1", "B", "2"] },
      { type: "USER", args: ["root"] },
      { type: "WORKDIR", args: ["/app"] },
      { type: "RUN", args: ["make"] },
    ],
    startCmd: "./serve",
    readyCmd: '[ -n "$(ss -Htuln sport = :8000)" ]',
  });
  expect(recipe).toEqual([
    { run: "apt-get update", shell: "bash", user: "root", timeoutSeconds: 3600 },
    { env: { A: "1", B: "2" } },
    { user: "root" },
    { run: "[ -d '/app' ] || { mkdir -p '/app' && chown root '/app'; }", user: "0", cwd: "/" },
    { workdir: "/app" },
    { run: "make", shell: "bash", timeoutSeconds: 3600 },
    { start: "./serve", shell: "bash", mayEnd: true },
    { waitFor: { port: 8000, timeoutSeconds: 600 } },
  ]);
  expect(origins).toEqual(["1", "2", "3", "4", "4", "5", "finalize", "finalize"]);
  expect(Recipe.safeParse(recipe).success).toBe(true);
});

it("resolves directories and targets against the working directory", () => {
  expect(steps(["WORKDIR", "/a"], ["WORKDIR", "../b c"]).at(-1)).toEqual({ workdir: "/b c" });
  const copied = (source: string, target: string) =>
    steps(["WORKDIR", "/w"], ["COPY", source, target, "", ""]).at(-1)?.copy;
  const tree = "f".repeat(64);
  expect(copied("src", "dst")).toEqual({ path: "/w/dst", tree, treePath: "src" });
  expect(copied("./src/", "/dst/")).toEqual({ path: "/dst/", tree, treePath: "src" });
  expect(copied("a.txt", ".")).toEqual({ path: "/w/", tree, treePath: "a.txt" });
  expect(copied("src/**/*.py", "/")).toEqual({ path: "/", tree, treePath: "src" });
  expect(copied("app/@modal/(group)", "/x")).toEqual({ path: "/x", tree, treePath: "app/@modal/(group)" });
  expect(copied("*.py", "/x")).toEqual({ path: "/x", tree });
  expect(copied(".", "x")).toEqual({ path: "/w/x", tree });
});

it("leaves relative targets to the guest if no step sets the working directory", () => {
  const copied = (target: string) => steps(["COPY", "src", target, "", ""])[0]?.copy?.path;
  expect(["dst", "./dst/", ".", "a/../b", "/x"].map(copied)).toEqual(["./dst", "./dst/", "./", "./b", "/x"]);
});

it("gives copied files an owner and a mode", () => {
  expect(steps(["COPY", "a", "/a", "1000:1000", "0755"])[0]?.copy).toMatchObject({ user: "1000", mode: "0755" });
  expect(() => steps(["COPY", "a", "/a", "me:staff", ""])).toThrow("the group staff is not that of the user me");
});

it("replaces variables of earlier steps, and names the one that it does not know", () => {
  expect(steps(["ENV", "A", "1"], ["ENV", "B", "$A/${A}/x"]).at(-1)).toEqual({ env: { B: "1/1/x" } });
  expect(() => steps(["ENV", "PATH", "/x:$PATH"])).toThrow("Step 1: PATH refers to PATH, which no earlier step sets");
});

it("gives a forced step and those after it other digests in each build", () => {
  const template = {
    steps: [
      { type: "RUN", args: ["a"] },
      { type: "RUN", args: ["b"], force: true },
    ],
  };
  const { recipe, origins } = translate(template, "first");
  expect(recipe.map((step) => Object.keys(step)[0])).toEqual(["run", "env", "run"]);
  expect(origins).toEqual(["1", "2", "2"]);
  expect(translate(template, "second").recipe).not.toEqual(recipe);
  expect(translate({ force: true, steps: template.steps }).origins).toEqual(["base", "1", "2"]);
});

it("waits as long as E2B for a command without a condition, and not at all without a command", () => {
  expect(translate({ startCmd: "./serve" }).recipe.at(-1)).toEqual({ run: "sleep 20" });
  expect(translate({}).recipe).toEqual([]);
});

it.each([
  ["[ -f '/tmp/ready now' ]", { file: "/tmp/ready now" }],
  ["[ -f /tmp/ready ]", { file: "/tmp/ready" }],
  ["[ -f ready ]", { command: "[ -f ready ]", shell: "bash" }],
  ["pgrep python > /dev/null", { command: "pgrep python > /dev/null", shell: "bash" }],
  ['[ -n "$(ss -Htuln sport = :99999)" ]', { command: '[ -n "$(ss -Htuln sport = :99999)" ]', shell: "bash" }],
])("translates the ready command %s", (command, condition) => {
  expect(readyCondition(command)).toEqual({ ...condition, timeoutSeconds: 600 });
});

it.each([
  [["RUN"], "Step 1 is not valid: RUN has no command"],
  [["ENV", "A"], "Step 1 is not valid: ENV needs pairs"],
  [["WORKDIR"], "Step 1 is not valid: WORKDIR has no path"],
  [["USER", "a; reboot"], 'Step 1 is not valid: "a; reboot" is not a user'],
  [["USER", "me", "true"], "cannot add a user to sudoers"],
  [["VOLUME", "/x"], "the type VOLUME, which is not supported"],
] as [[string, ...string[]], string][])("refuses %j", (step, message) => {
  expect(() => steps(step)).toThrow(message);
});

it("refuses more steps than a recipe has", () => {
  const many = Array.from({ length: 60 }, () => ["WORKDIR", "/x"] as [string, string]);
  expect(() => steps(...many)).toThrow("The template has 120 steps, and may have at most 100");
});
