import { Config } from "@pulumi/pulumi";
import { NamedSnapshot, SandboxSet, SandboxTemplate } from "ramet";

/** Something in another namespace than what it is made from. */
const python = new SandboxTemplate("python", { namespace: "a", image: "python" });
const data = new NamedSnapshot("data", { namespace: "a", from: python });
if (new Config().require("kind") === "SandboxSet") new SandboxSet("apart", { namespace: "b", from: data, replicas: 1 });
else new NamedSnapshot("apart", { namespace: "b", from: python });
