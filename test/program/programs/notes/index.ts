import { Config } from "@pulumi/pulumi";
import { copy, NamedSnapshot, run, Sandbox, SandboxSet, SandboxTemplate } from "ramet";

const config = new Config();
const base = new SandboxTemplate("base", { image: "python" });
const other = new SandboxTemplate("other", { image: "python", env: { WHO: config.get("who") ?? "nobody" } });
const notes = new NamedSnapshot("notes", {
  name: config.get("name") ?? "notes",
  from: base,
  recipe: [
    copy({ path: "/etc/token", secret: config.requireSecret("token"), mode: "0600" }),
    run(config.getBoolean("leak") === true ? config.requireSecret("token") : "test -s /etc/token"),
    run(config.get("command") ?? "echo written"),
  ],
});
const child = new NamedSnapshot("child", { from: notes, recipe: [run("test -s /etc/token")] });
const pool = new SandboxSet("pool", { from: other, replicas: 1 });
const box = new Sandbox("box", { from: base });

export const version = notes.version;
export const digest = notes.digest;
export const childDigest = child.digest;
export const names = [box.name, pool.name];
