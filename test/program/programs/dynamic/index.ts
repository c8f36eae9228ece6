import { Config } from "@pulumi/pulumi";
import { NamedSnapshot, run, SandboxClone } from "ramet";

/** Only dynamic resources, with a source that already exists. */
const config = new Config();
const data = new NamedSnapshot("data", {
  name: config.get("name") ?? "data",
  from: { sandbox: "base" },
  recipe: [run("echo begun"), run(config.get("command") ?? "echo done")],
});
const dev = new SandboxClone("dev", { from: data });

export const version = data.version;
export const sandbox = dev.name;
