import { Config } from "@pulumi/pulumi";
import { NamedSnapshot, SandboxSet, SandboxTemplate } from "ramet";

/** Declares a resource in another namespace than its source. */
const python = new SandboxTemplate("python", { namespace: "a", image: "python" });
const data = new NamedSnapshot("data", { namespace: "a", from: python });
if (new Config().require("kind") === "SandboxSet") new SandboxSet("apart", { namespace: "b", from: data, replicas: 1 });
else new NamedSnapshot("apart", { namespace: "b", from: python });
