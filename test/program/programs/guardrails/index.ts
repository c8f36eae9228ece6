import { CustomResource } from "@pulumi/pulumi";
import { NamedSnapshot, run, SandboxClone, SandboxSet, SandboxTemplate } from "ramet";

const python = new SandboxTemplate("python", { image: "python:latest" });
const data = new NamedSnapshot("data", {
  from: python,
  recipe: [run("true"), run("git clone https://me:hunter22@git.example/a.git")],
  keepVersions: 1,
});
new SandboxSet("pool", { from: data, replicas: 51 });
new SandboxClone("dev", { from: data });

/** A resource of another provider, declared by its token. */
class BucketAcl extends CustomResource {
  constructor(name: string, args: { bucket: string; acl: string }) {
    super("aws:s3/bucketAcl:BucketAcl", name, args);
  }
}
new BucketAcl("store", { bucket: "checkpoints", acl: "public-read" });
